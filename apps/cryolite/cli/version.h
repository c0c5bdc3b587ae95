#pragma once

#ifndef CRYOLITE_VERSION  // the build gives the project's
#define CRYOLITE_VERSION "0.1.0"
#endif
