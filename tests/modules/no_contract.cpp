// A shared object that knows no contract.
extern "C" [[gnu::visibility("default")]] int clusterbench_something_else() {
  return 0;
}
