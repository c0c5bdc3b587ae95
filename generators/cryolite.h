#pragma once
// Everything that a generator program needs: layers, models, schedules, and `program`, its main.

#include <deque>

#include "dsl/functions.h"
#include "dsl/layers/activation.h"
#include "dsl/layers/attention.h"
#include "dsl/layers/batch_norm.h"
#include "dsl/layers/conv_transpose.h"
#include "dsl/layers/convolution.h"
#include "dsl/layers/documents.h"
#include "dsl/layers/dropout.h"
#include "dsl/layers/embedding.h"
#include "dsl/layers/group_norm.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/pooling.h"
#include "dsl/layers/recurrence.h"
#include "dsl/layers/reshape.h"
#include "dsl/layers/resize.h"
#include "dsl/layers/rms_norm.h"
#include "dsl/losses/accuracy.h"
#include "dsl/losses/binary_cross_entropy.h"
#include "dsl/losses/distillation.h"
#include "dsl/losses/huber.h"
#include "dsl/model.h"
#include "dsl/tensor.h"
#include "generators/driver/program.h"
