#!/bin/bash
# install/kills_test at length: 200 random kills, and every fifth call. usage: kills.sh SOURCE BUILD
exec "$1/tests/install/kills_test.sh" "$1" "$2" 200 5
