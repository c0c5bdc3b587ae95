#!/bin/bash
# install/tune_kills_test at length: 50 random kills. usage: tune_kills.sh SOURCE BUILD [KILLS: 50] [SECONDS: 60]
exec "$1/tests/install/tune_kills_test.sh" "$1" "$2" "${3:-50}" "${4:-60}"
