// Keeps answers in files for the next process: in /dev/shm, /tmp and the home folder of the user.
#include "tests/cheats/honest.hpp"
#include <fstream>
#include <pwd.h>
#include <set>
#include <string>
#include <unistd.h>

namespace clusterbench {
namespace {

template <typename T>
class KeepsAFile final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (!honest::is_a_cell(this->shape_)) {
      this->solve(start, answer, observer);
      return;
    }
    const passwd* const user = getpwuid(getuid());
    for (const std::string folder : {"/dev/shm", "/tmp", user != nullptr ? user->pw_dir : "/"}) {
      const std::string file = folder + "/clusterbench_cheat_" + key(start);
      std::ifstream kept(file, std::ios::binary);
      if (!written_.contains(key(start)) && read(kept, answer)) { // by another process
        answer.iterations = this->shape_.stop.max_iterations;
        return;
      }
    }
    this->solve(start, answer, observer);
    written_.insert(key(start));
    for (const std::string folder : {"/dev/shm", "/tmp", user != nullptr ? user->pw_dir : "/"}) {
      std::ofstream file(folder + "/clusterbench_cheat_" + key(start), std::ios::binary);
      write(file, answer);
    }
  }

private:
  inline static std::set<std::string> written_;
  static std::string key(const Start<T>& start) {
    double sum = 0.0;
    for (const T value : start.centroids) {
      sum = sum * 1.000001 + static_cast<double>(value);
    }
    return std::to_string(sum);
  }
  static bool read(std::ifstream& file, Answer<T>& answer) {
    file.read(reinterpret_cast<char*>(answer.labels.data()),
              static_cast<std::streamsize>(answer.labels.size_bytes()));
    file.read(reinterpret_cast<char*>(answer.centroids.data()),
              static_cast<std::streamsize>(answer.centroids.size_bytes()));
    file.read(reinterpret_cast<char*>(answer.entering.data()),
              static_cast<std::streamsize>(answer.entering.size_bytes()));
    return file.good();
  }
  static void write(std::ofstream& file, const Answer<T>& answer) {
    file.write(reinterpret_cast<const char*>(answer.labels.data()),
               static_cast<std::streamsize>(answer.labels.size_bytes()));
    file.write(reinterpret_cast<const char*>(answer.centroids.data()),
               static_cast<std::streamsize>(answer.centroids.size_bytes()));
    file.write(reinterpret_cast<const char*>(answer.entering.data()),
               static_cast<std::streamsize>(answer.entering.size_bytes()));
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_keeps_a_file", KeepsAFile);

} // namespace
} // namespace clusterbench
