#pragma once
// Everything that a generator program needs: layers, models, schedules, and `program`, its main.

#include <deque>

#include "dsl/layers/activation.h"
#include "dsl/layers/attention.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/embedding.h"
#include "dsl/layers/group_norm.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"
#include "dsl/layers/reshape.h"
#include "dsl/layers/rms_norm.h"
#include "dsl/model.h"
#include "generators/driver/program.h"
