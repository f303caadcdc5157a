"""What a user's own script or model runs: audits and traces, and the suites that are written from them."""
