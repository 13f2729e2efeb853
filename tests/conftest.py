"""What all tests share: how Hypothesis looks for examples."""

from hypothesis import HealthCheck, settings

# The same examples every time, whatever the clock says: no run fails for a rare example or a busy machine. To look for
# new examples, as often as one likes: python -m pytest --hypothesis-profile=explore
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("explore"), derandomize=True)
settings.load_profile("fixed")
