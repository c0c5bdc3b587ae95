#pragma once

#include "dsl/models/gpt.h"
#include "schedules/step_schedule.h"

namespace cryolite {

void schedule_gpt(Gpt &net, Step &s);

}  // namespace cryolite
