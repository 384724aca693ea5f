// node SCRIPT.mjs URL QUESTIONS: what a client did in each scenario, one JSON object on standard output.
export const url = process.argv[2];
export const questions = JSON.parse(process.argv[3]); // tests/e2e/client_replies.py

/** Runs each scenario; what it returns, or {error: {name, message, …}} of what it threw, is under its name. */
export async function run(scenarios) {
  const results = {};
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      results[name] = await scenario();
    } catch (error) {
      const { status, code, param, type, stack } = error;
      results[name] = { error: { name: error.constructor.name, message: error.message, status, code, param, type, stack } };
    }
  }
  console.log(JSON.stringify(results));
}
