#include "apps/cryolite/cli/commands.h"

int main(int argc, char **argv) { return cryolite::run_command(argc, argv); }
