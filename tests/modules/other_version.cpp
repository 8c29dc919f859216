// A module of another version of the contract.
extern "C" [[gnu::visibility("default")]] void* clusterbench_contract_2() {
  return nullptr;
}
