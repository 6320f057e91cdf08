#pragma once

// Folders that a killed process leaves: its temporary ones (TemporaryFolder in files.h), and those that it was about to
// put in their place.

#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace mlbench {

// Removes the temporary folders of a process. Precondition: the process, which had the number `pid` in this process's
// PID namespace, has ended.
void remove_temporary_folders_of(pid_t pid);

// Begins the name of what is renamed once it is whole.
inline constexpr std::string_view kUnfinished = ".tmp-";
// Removes what is unfinished in `folder`, if there is such a folder. Precondition: nobody is writing there.
void remove_unfinished(const std::filesystem::path& folder);

}  // namespace mlbench
