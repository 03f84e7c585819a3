import { nodeChunk, type ScriptedCall, type ScriptedNode, startScriptedNode } from '../nodes/scripted-node.ts'

const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }
/** Calls of the tool before the answer: a loop of three turns has two. */
const calls = 2

interface Sent {
  readonly stream?: boolean
  readonly tools?: readonly { readonly function: { readonly name: string } }[]
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
}

/** What a client ends with that has run its tool as it was asked: each result reached the node again. */
export const loopAnswer = 'result 1, result 2'

/** Frameworks that know no messages of tools send their results as a user's. */
function resultsOf(messages: Sent['messages']): readonly string[] {
  const heard = messages.filter(({ role }) => role !== 'assistant' && role !== 'system')
  const found = heard.flatMap(({ content }) => JSON.stringify(content).match(/result \d/g) ?? [])
  return [...new Set(found)]
}

/** A framework that has no tools of the protocol asks for fields between marks of its own; null: it is another one. */
function fieldsOf(messages: Sent['messages'], step: number, said: string): string | null {
  const asked = JSON.stringify(messages.at(-1)?.content ?? '')
  const written = (fields: Readonly<Record<string, string>>) =>
    Object.entries({ ...fields, completed: '' })
      .map(([name, value]) => `[[ ## ${name} ## ]]\n${value}`)
      .join('\n\n')
  if (asked.includes('[[ ## next_tool_name ## ]]')) {
    const isOver = step > calls
    const next_tool_args = isOver ? '{}' : JSON.stringify({ step })
    return written({ next_thought: 'on', next_tool_name: isOver ? 'finish' : 'look', next_tool_args })
  }
  return asked.includes('[[ ## answer ## ]]') ? written({ reasoning: 'so', answer: said }) : null
}

async function answer(call: ScriptedCall): Promise<void> {
  const { stream, messages, tools = [] } = call.body as unknown as Sent
  const results = resultsOf(messages)
  const step = results.length + 1
  const isOver = step > calls
  // One framework ends by a call of this tool of its own.
  const endsByCall = tools.some(({ function: { name } }) => name === 'final_answer')
  const isCall = !isOver || endsByCall
  const name = isOver ? 'final_answer' : 'look'
  const said = results.join(', ')
  const fields = fieldsOf(messages, step, said)
  if (fields !== null) {
    const message = { role: 'assistant', content: fields }
    return call.respond(200, { choices: [{ index: 0, message, finish_reason: 'stop' }], usage })
  }
  const given = isOver ? (isCall ? JSON.stringify({ answer: said }) : said) : `{"step": ${step}}`
  const finish = isCall ? 'tool_calls' : 'stop'
  const called = (index: object, id: object, own: object) => ({ tool_calls: [{ ...index, ...id, function: own }] })
  const head = { id: `call_${step}`, type: 'function' }
  if (stream !== true) {
    const asked = { content: null, ...called({}, head, { name, arguments: given }) }
    const message = { role: 'assistant', ...(isCall ? asked : { content: given }) }
    return call.respond(200, { choices: [{ index: 0, message, finish_reason: finish }], usage })
  }
  call.open()
  const [first, second] = [given.slice(0, 5), given.slice(5)]
  const deltas = isCall
    ? [
        { role: 'assistant', ...called({ index: 0 }, head, { name, arguments: '' }) },
        called({ index: 0 }, {}, { arguments: first }),
        called({ index: 0 }, {}, { arguments: second }),
      ]
    : [{ role: 'assistant', content: first }, { content: second }]
  for (const delta of deltas) await call.event(nodeChunk(delta))
  await call.event(nodeChunk({}, finish, { usage }))
  await call.event('[DONE]')
  call.end()
}

/** A node whose model `m` calls the function `look` with step 1, then with step 2, and then answers with both results. */
export function startLoopNode(): ScriptedNode {
  const node = startScriptedNode('m')
  node.answer(answer)
  return node
}
