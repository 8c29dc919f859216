// What this binary was built from and how; the definitions are written by the build.
#pragma once

namespace clusterbench::build_info {

const char* version();            ///< of the project
const char* compiler();           ///< name and version of the C++ compiler
const char* cxx();                ///< path of that compiler
const char* nvcc();               ///< path of nvcc, or empty
const char* cuda_compiler();      ///< version of nvcc, or empty
const char* cuda_architectures(); ///< such as "75;80;90", or empty
const char* flags();              ///< common C++ flags, -march included
const char* build_type();         ///< such as Release
const char* march();              ///< value of -march
const char* git_commit();         ///< full hash, or "unknown"
bool git_dirty();                 ///< tracked files differed from that commit

} // namespace clusterbench::build_info
