#pragma once

#include "dsl/models/llama.h"
#include "schedules/step_schedule.h"

namespace cryolite {

void schedule_llama(Llama &net, Step &s);

}  // namespace cryolite
