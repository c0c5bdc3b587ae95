#pragma once
// The errors of both halves, with which the runtime refuses a file, a flag or a device, and what messages show.

#include "bundle/error.h"
#include "bundle/shown.h"
