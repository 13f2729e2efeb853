#include "weft/trace/recorder.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "weft/trace/phases.hpp"

using namespace weft::trace;

namespace {
Interval host(const char* name, Category category, std::int64_t begin, std::int64_t end) {
  return {name, category, false, begin, end, 0};
}
struct Recording {
  Recording() { enable(true); }
  ~Recording() { enable(false); }
};
}  // namespace

TEST(Recorder, ASpanWithTheRecorderOffLeavesNoInterval) {
  enable(true);  // clears
  enable(false);
  {
    const Span span("unseen", Category::cpu);
    record(host("unseen", Category::cpu, 0, 1));
  }
  EXPECT_TRUE(intervals().empty());
}

TEST(Recorder, ASpanOpenedBeforeRecordingStartsIsNotClosedIntoIt) {
  enable(false);
  {
    const Span span("early", Category::cpu);
    enable(true);
  }
  EXPECT_TRUE(intervals().empty());
  enable(false);
}

TEST(Recorder, WhatHappensInAPauseLeavesNoIntervalAndASpanAroundItDoes) {
  const Recording recording;
  {
    const Span around("around", Category::cpu);
    const Pause pause;
    {
      const Pause nested;
      const Span span("unseen", Category::cpu);
    }
    const Span span("unseen", Category::cpu);
    record(host("unseen", Category::gpu, 0, 1));
  }
  {
    const Span after("after", Category::cpu);
  }
  const std::vector<Interval> found = intervals();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_STREQ(found[0].name, "around");
  EXPECT_STREQ(found[1].name, "after");
  {
    enable(false);
    const Pause off;
  }
  EXPECT_FALSE(enabled());
}

TEST(Recorder, ExclusiveTimesOfNestedSpansAddUpToTheOutermost) {
  const Recording recording;
  // outer [0, 100] contains mpi [10, 40], which contains copy [20, 25], and launch [40, 60]; recorded in the order in
  // which they end.
  record(host("copy", Category::copy, 20, 25));
  record(host("mpi", Category::mpi, 10, 40));
  record(host("launch", Category::launch, 40, 60));
  record(host("outer", Category::cpu, 0, 100));
  const auto seconds = exclusive_seconds();
  EXPECT_NEAR(seconds.at("cpu"), 50e-9, 1e-15);
  EXPECT_NEAR(seconds.at("mpi"), 25e-9, 1e-15);
  EXPECT_NEAR(seconds.at("copy"), 5e-9, 1e-15);
  EXPECT_NEAR(seconds.at("launch"), 20e-9, 1e-15);
  EXPECT_EQ(seconds.at("gpu"), 0.0);
  EXPECT_NEAR(exclusive_seconds_by_name().at("outer"), 50e-9, 1e-15);
}

TEST(Recorder, APhaseHasWhatWasOpenedInsideItLessThePhasesInIt) {
  const Recording recording;
  // step [0, 100] contains pressure [10, 80], which contains send [20, 30] and exchange [40, 70] with wait [50, 65].
  record(host("send", Category::mpi, 20, 30));
  record(host("wait", Category::mpi, 50, 65));
  record(host("exchange", Category::cpu, 40, 70));
  record(host("pressure", Category::cpu, 10, 80));
  record(host("step", Category::cpu, 0, 100));
  record({"kernel", Category::gpu, true, 0, 90, 0});
  auto seconds = exclusive_seconds_by_phase({"pressure", "exchange", "velocity"});
  EXPECT_EQ(seconds.size(), 3u);
  EXPECT_NEAR(seconds.at("pressure").at("cpu"), 30e-9, 1e-15);
  EXPECT_NEAR(seconds.at("pressure").at("mpi"), 10e-9, 1e-15);
  EXPECT_NEAR(seconds.at("exchange").at("cpu"), 15e-9, 1e-15);
  EXPECT_NEAR(seconds.at("exchange").at("mpi"), 15e-9, 1e-15);
  EXPECT_NEAR(seconds.at("").at("cpu"), 30e-9, 1e-15);
}

TEST(Recorder, SpansOfZeroLengthAndEqualBoundsKeepTheSum) {
  const Recording recording;
  record(host("inner", Category::mpi, 0, 10));
  record(host("outer", Category::cpu, 0, 10));
  record(host("empty", Category::copy, 5, 5));
  const auto seconds = exclusive_seconds();
  EXPECT_NEAR(seconds.at("cpu") + seconds.at("mpi") + seconds.at("copy"), 10e-9, 1e-15);
}

TEST(Recorder, TheDevicesTimeLineIsApartAndOverlapsCountOnce) {
  const Recording recording;
  record(host("wait", Category::launch, 0, 100));
  record({"kernel", Category::gpu, true, 10, 60, 0});
  record({"copy", Category::copy, true, 40, 80, 0});  // another stream: overlaps without nesting
  const auto seconds = exclusive_seconds();
  EXPECT_NEAR(seconds.at("launch"), 100e-9, 1e-15);
  EXPECT_NEAR(seconds.at("gpu") + seconds.at("copy"), 70e-9, 1e-15);
  EXPECT_NEAR(seconds.at("copy"), 40e-9, 1e-15);
}

TEST(Recorder, SpansOfThisThreadNestAndThoseOfOthersAreDropped) {
  const Recording recording;
  {
    const Span outer("outer", Category::cpu);
    const Span inner("inner", Category::mpi, 24);
    std::thread([] { const Span foreign("foreign", Category::cpu); }).join();
  }
  const auto all = intervals();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_STREQ(all[0].name, "inner");
  EXPECT_EQ(all[0].bytes, 24);
  EXPECT_LE(all[1].begin_ns, all[0].begin_ns);
  EXPECT_LE(all[0].end_ns, all[1].end_ns);
}

TEST(Recorder, InternedNamesAreOnePointerPerText) {
  std::string text = "phase";
  const char* first = intern(text);
  text[0] = 'x';
  EXPECT_EQ(first, intern("phase"));
  EXPECT_STREQ(first, "phase");
}

TEST(Recorder, ACallOfMpiTellsWhomItSendsHowMuchAndWhatEndsIt) {
  const Recording recording;
  Traffic start;
  start.group = 70000;
  start.request = fresh_request();
  start.sends = {{1, 800}, {2, 8}};
  start.receives = {{3, 16}};
  const auto started = std::make_shared<const Traffic>(start);
  {
    const Span span("send", Category::mpi, 808, &started);
  }
  Traffic all;
  all.collective = "barrier";
  const auto joined = std::make_shared<const Traffic>(all);
  {
    const Span span("agree", Category::mpi, 0, &joined);
  }
  const std::string text = chrome_trace_events(0);
  EXPECT_NE(text.find(R"("bytes":808,"group":70000,"request":)" + std::to_string(start.request) +
                      R"(,"sends":[[1,800],[2,8]],"receives":[[3,16]]}})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("bytes":0,"collective":"barrier"}})"), std::string::npos) << text;
  EXPECT_NE(fresh_request(), start.request);
}

TEST(Recorder, ATraceThatCannotBeWrittenIsAnError) {
  const Recording recording;
  EXPECT_THROW(write_chrome_trace("/nowhere/trace.json", 0), std::runtime_error);
}

TEST(Recorder, ADelayIsForTheLaunchAndStreamItNames) {
  setenv("WEFT_TRACE_DELAY", "pack#1@2=0.5,apply=2,never=1", 1);
  enable(true);
  unsetenv("WEFT_TRACE_DELAY");
  EXPECT_EQ(delay_ns("pack", 2), 0);
  EXPECT_EQ(delay_ns("pack", 1), 0);
  EXPECT_EQ(delay_ns("pack", 2), 500000);
  EXPECT_EQ(delay_ns("pack", 2), 0);
  EXPECT_EQ(delay_ns("pack", 1), 0);
  EXPECT_EQ(delay_ns("apply", 0), 2000000);
  EXPECT_EQ(delay_ns("other", 0), 0);
  EXPECT_EQ(unmet_delays(), std::vector<std::string>{"never=1"});
  enable(true);
  enable(false);
  EXPECT_TRUE(unmet_delays().empty());
}

TEST(Recorder, ADelayThatCannotBeReadIsAnErrorThatShowsIt) {
  for (const char* wrong :
       {"pack", "pack=", "=5", "pack#=5", "pack#x=5", "pack=-1", "pack=1e9", "pack=5ms", "pack@=1"}) {
    setenv("WEFT_TRACE_DELAY", wrong, 1);
    try {
      enable(true);
      ADD_FAILURE() << wrong << " was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
  }
  unsetenv("WEFT_TRACE_DELAY");
  enable(false);
}
