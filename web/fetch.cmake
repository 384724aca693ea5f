# Fetches what package-lock.json names, checked against its hashes, into TARGET/node_modules. The copy of
# package-lock.json there tells that this has been done.
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
if(NOT NPM)
  message(FATAL_ERROR "The page's libraries have changed, and npm, which fetches them, is not installed: "
                      "'apt-get install npm', or -DKAIJU_PAGE=OFF for Kaiju without the page.")
endif()
file(REMOVE_RECURSE ${TARGET}/fetching)
file(MAKE_DIRECTORY ${TARGET}/fetching)
file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json DESTINATION ${TARGET}/fetching)
execute_process(
  COMMAND ${NPM} ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund --no-update-notifier
          --fetch-retries 5 --loglevel error
  WORKING_DIRECTORY ${TARGET}/fetching
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "npm could not fetch the page's libraries:\n${output}\n"
                      "Build again when the registry can be reached, or with -DKAIJU_PAGE=OFF without the page.")
endif()
file(REMOVE_RECURSE ${TARGET}/node_modules)
file(RENAME ${TARGET}/fetching/node_modules ${TARGET}/node_modules)
file(RENAME ${TARGET}/fetching/package-lock.json ${done})
file(REMOVE_RECURSE ${TARGET}/fetching)
file(TOUCH ${done})
