#!/bin/sh
# Hook before the end of a server: enables all stable feature flags, without which one of a later version does not
# start. A new server has all of them; one that was upgraded has not. Members of several versions enable what all know.
timeout 10 rabbitmqctl --quiet enable_feature_flag all > /dev/null 2>&1 || :
