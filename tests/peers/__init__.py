"""Programs that nobody here wrote, tried with the gateway by `script/peers`; no part of the tests that CI runs."""
