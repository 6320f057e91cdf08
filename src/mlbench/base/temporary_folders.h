#pragma once

// The temporary folders (TemporaryFolder in files.h) of a process that was killed, which cannot remove them itself.

#include <sys/types.h>

namespace mlbench {

// Removes them. Precondition: the process, which had the number `pid` in this process's PID namespace, has ended.
void remove_temporary_folders_of(pid_t pid);

}  // namespace mlbench
