#pragma once
// What the runtime refuses a file, a flag or a device with: the errors of both halves, and what messages show.

#include "bundle/error.h"
#include "bundle/shown.h"
