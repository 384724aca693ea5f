import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { questions, run, url } from "./scenarios.mjs";

const kaiju = createOpenAICompatible({
  name: "kaiju",
  baseURL: `${url}/v1`,
  apiKey: "none",
  includeUsage: true,
  supportsStructuredOutputs: true,
});
globalThis.AI_SDK_LOG_WARNINGS = false;
const common = { model: kaiju("m"), maxRetries: 0 };

function weatherTools(asked) {
  return {
    [questions.tool]: tool({
      description: questions.description,
      inputSchema: z.object({ town: z.string(), days: z.number().int() }),
      execute: async (input) => (asked.push(input), questions.result),
    }),
  };
}

await run({
  async chat() {
    const { text, finishReason, usage } = await generateText({ ...common, system: "Be short.", prompt: "Hello" });
    return { text, reason: finishReason, usage };
  },
  async stream() {
    const { textStream, finishReason, usage } = streamText({ ...common, prompt: "Hello" });
    const parts = [];
    for await (const part of textStream) parts.push(part);
    return { text: parts.join(""), parts: parts.length, reason: await finishReason, usage: await usage };
  },
  async tools() {
    const asked = [];
    const { text, steps } = await generateText({ ...common, prompt: questions.weather, tools: weatherTools(asked), stopWhen: stepCountIs(4) });
    return { text, asked, reasons: steps.map((step) => step.finishReason) };
  },
  async "tools stream"() {
    const asked = [];
    const { steps, text } = streamText({ ...common, prompt: questions.towns, tools: weatherTools(asked), stopWhen: stepCountIs(4) });
    return { text: await text, asked, reasons: (await steps).map((step) => step.finishReason) };
  },
  async thinking() {
    const { text, reasoningText } = await generateText({ ...common, prompt: questions.sum });
    return { text, thought: reasoningText };
  },
  async "structured output"() {
    const form = z.object({ name: z.string(), born: z.number().int(), fields: z.array(z.string()) });
    const { object } = await generateObject({ ...common, prompt: questions.person, schema: form });
    const { output } = await generateText({ ...common, prompt: questions.person, output: Output.object({ schema: form }) });
    return { object, output };
  },
  errors: () => generateText({ ...common, prompt: "x", temperature: -1 }),
});
