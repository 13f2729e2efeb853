#!/bin/bash
# A Slurm of several nodes on this machine, to try job scripts (Debian: apt install slurm-wlm munge; as root):
#     one_machine.sh start 4 [FOLDER]         # nodes n0 to n3; FOLDER (default /tmp/one-machine-slurm) gets state and logs
#     one_machine.sh stop [FOLDER]
# Each node claims all processors and two GPUs that do not exist. It replaces /etc/slurm/slurm.conf and gres.conf.
set -euo pipefail

start() {
  local nodes=$1 folder=${2:-/tmp/one-machine-slurm} host last
  host=$(hostname -s)
  last=$((nodes - 1))
  mkdir -p "$folder/state" "$folder/log"
  cat >/etc/slurm/slurm.conf <<END
ClusterName=one-machine
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
TmpFS=$folder/tmp.%n
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdLogFile=$folder/log/slurmd.%n.log
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n[0-$last] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17001-$((17001 + last))] CPUs=$(nproc) Gres=gpu:2
PartitionName=all Nodes=n[0-$last] Default=YES MaxTime=60 State=UP
END
  echo "Name=gpu Count=2 File=/dev/tty[0-1]" >/etc/slurm/gres.conf
  install -d -o munge -g munge -m 0755 /run/munge
  pgrep -x munged >/dev/null || runuser -u munge -- munged
  slurmctld
  for ((i = 0; i <= last; i++)); do
    mkdir -p "$folder/spool.n$i" "$folder/tmp.n$i"
    slurmd -N "n$i"
  done
  for _ in $(seq 30); do
    [ "$(sinfo --noheader --nodes="n[0-$last]" --states=idle --format=%D)" = "$nodes" ] && return
    sleep 1
  done
  sinfo
  return 1
}

stop() {
  local folder=${1:-/tmp/one-machine-slurm}
  for file in "$folder"/slurmd.*.pid "$folder/slurmctld.pid"; do
    [ ! -f "$file" ] || kill "$(cat "$file")"
  done
}

"$@"
