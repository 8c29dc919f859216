# `cmake --install` and the Debian package. All that the program looks for beside itself lies beside it in
# lib/clusterbench, as in a build folder; bin/ holds a link. Included before the tests, whose modules stay.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(home lib/clusterbench)

install(TARGETS clusterbench clusterbench-runner RUNTIME DESTINATION ${home})
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/install)
file(CREATE_LINK ../${home}/clusterbench ${PROJECT_BINARY_DIR}/install/clusterbench SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/install/clusterbench DESTINATION ${CMAKE_INSTALL_BINDIR})

get_property(modules GLOBAL PROPERTY CLUSTERBENCH_MODULE_TARGETS)
install(TARGETS ${modules} LIBRARY DESTINATION ${home}/modules)
list(TRANSFORM modules REPLACE "(.+)" "${PROJECT_BINARY_DIR}/modules/\\1.json" OUTPUT_VARIABLE descriptions)
install(FILES ${descriptions} ${PROJECT_BINARY_DIR}/modules/list DESTINATION ${home}/modules)
if(TARGET device)
  install(TARGETS device gpu_probe LIBRARY DESTINATION ${home}/plugins)
endif()
if(TARGET ranks)
  install(TARGETS ranks LIBRARY DESTINATION ${home}/plugins)
endif()
install(FILES ${PROJECT_BINARY_DIR}/page/template.html DESTINATION ${home}/page OPTIONAL)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/impls/python DESTINATION ${home}/impls FILES_MATCHING PATTERN "*.py"
  PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/results/tables ${PROJECT_SOURCE_DIR}/results/judge
  DESTINATION ${home}/results)
file(GLOB results ${PROJECT_SOURCE_DIR}/results/*.json)
install(FILES ${results} DESTINATION ${home}/results)

foreach(shell bash zsh)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/install/completion.${shell}
    COMMAND clusterbench completion ${shell} > ${PROJECT_BINARY_DIR}/install/completion.${shell}
    DEPENDS clusterbench VERBATIM)
endforeach()
add_custom_target(completion ALL DEPENDS ${PROJECT_BINARY_DIR}/install/completion.bash
  ${PROJECT_BINARY_DIR}/install/completion.zsh)
install(FILES ${PROJECT_BINARY_DIR}/install/completion.bash RENAME clusterbench
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${PROJECT_BINARY_DIR}/install/completion.zsh RENAME _clusterbench
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

# For projects outside: the contract, Python's helper, and a package for CMake.
install(FILES ${PROJECT_SOURCE_DIR}/impls/contract.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/clusterbench)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include ${PROJECT_BINARY_DIR}/python DESTINATION ${home}
  PATTERN "__pycache__" EXCLUDE)
set(program ${CMAKE_INSTALL_BINDIR}/clusterbench)
set(include ${CMAKE_INSTALL_INCLUDEDIR})
set(package lib/cmake/clusterbench)
set(package_architectures "${CMAKE_CUDA_ARCHITECTURES}")
if(NOT package_architectures) # a build without CUDA
  set(package_architectures 80-virtual)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/clusterbenchConfig.cmake.in
  ${PROJECT_BINARY_DIR}/install/clusterbenchConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS program include)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/clusterbenchConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/clusterbenchConfig.cmake
  ${PROJECT_BINARY_DIR}/install/clusterbenchConfigVersion.cmake DESTINATION ${package})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/docs/judge.md ${PROJECT_SOURCE_DIR}/docs/peers.md
  ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A package for other machines is to be built with -DCLUSTERBENCH_MARCH=x86-64-v2, say.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME clusterbench)
set(CPACK_PACKAGE_CONTACT "clusterbench maintainers <maintainers@clusterbench.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Benchmarks and verifies implementations of k-means and fuzzy c-means")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Who judges sources needs a compiler; who looks at Python's peers needs them, and a matrix product that is
# not the reference one.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++, python3-numpy, libopenblas0-pthread")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, make, openmpi-bin, python3-scipy, python3-sklearn, python3-faiss")
include(CPack)
