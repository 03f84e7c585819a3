import { nodeChunk, type ScriptedCall, startScriptedNode } from '../nodes/scripted-node.ts'

const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }
/** Stands in no task: an agent that tells it has read the file that it wrote. */
export const written = 'a greeting by way of the gateway'
export const task =
  'Write the greeting into note.txt with one tool call, then read note.txt, then tell me what it says.'
export const answered = `The file says: ${written}`

interface Tool {
  readonly function: { readonly name: string; readonly parameters?: { readonly properties?: object } }
}
interface Sent {
  readonly stream?: boolean
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
  readonly tools?: readonly Tool[]
}

/** What agents call their tools, those that write before those that read; a shell does both. */
const writers = ['write', 'write_file']
const readers = ['read', 'read_file']
const shells = ['exec_command', 'shell']

const named = (tools: readonly Tool[], names: readonly string[]) =>
  tools.find(({ function: { name } }) => names.includes(name.toLowerCase()))

/** Members by the names that the tool's own schema gives them. */
function argumentsOf({ function: { parameters } }: Tool, values: Readonly<Record<string, unknown>>): string {
  const names = Object.keys(parameters?.properties ?? {})
  const taken = names.flatMap((name) => {
    const value = values[name.toLowerCase().replaceAll('_', '')]
    return value === undefined ? [] : [[name, value]]
  })
  return JSON.stringify(Object.fromEntries(taken))
}

/** Shells take one line, or the words of a command. */
const shellOf = (line: string) => ({ cmd: line, command: ['bash', '-lc', line] })

interface Reply {
  readonly text?: string
  readonly tool?: string
  readonly input?: string
}

/** An agent without tools edits by the text that its model writes: first the whole file, then what that says. */
function textOf(messages: Sent['messages']): string {
  const told = JSON.stringify(messages)
  if (told.includes('*file listing*')) return `note.txt\n\`\`\`\n${written}\n\`\`\`\n`
  if (told.includes('Answer questions about the supplied code')) {
    return told.includes(written) ? answered : 'The file was not read'
  }
  // Some agents ask for a title first, and offer no tools.
  return 'A greeting'
}

function replyOf({ messages, tools = [] }: Sent, path: string): Reply {
  const results = messages.filter(({ role }) => role === 'tool').map(({ content }) => JSON.stringify(content))
  const [write, read] = [named(tools, writers) ?? named(tools, shells), named(tools, readers) ?? named(tools, shells)]
  if (write === undefined || read === undefined) return { text: textOf(messages) }
  const file = { filepath: path, absolutepath: path, path }
  if (results.length === 0) {
    const values = { ...file, content: `${written}\n`, ...shellOf(`echo '${written}' > ${path}`) }
    return { tool: write.function.name, input: argumentsOf(write, values) }
  }
  if (results.length === 1) {
    return { tool: read.function.name, input: argumentsOf(read, { ...file, ...shellOf(`cat ${path}`) }) }
  }
  return { text: results.at(-1)?.includes(written) === true ? answered : `The file was not read: ${results.at(-1)}` }
}

async function respond(call: ScriptedCall, { text, tool, input }: Reply): Promise<void> {
  const called = {
    index: 0,
    id: `call_${Bun.randomUUIDv7()}`,
    type: 'function',
    function: { name: tool, arguments: input },
  }
  const delta = tool === undefined ? { content: text } : { content: null, tool_calls: [called] }
  const finish = tool === undefined ? 'stop' : 'tool_calls'
  if ((call.body as unknown as Sent).stream !== true) {
    return call.respond(200, {
      choices: [{ index: 0, message: { role: 'assistant', ...delta }, finish_reason: finish }],
      usage,
    })
  }
  call.open()
  await call.event(nodeChunk({ role: 'assistant', ...delta }))
  await call.event(nodeChunk({}, finish, { usage }))
  await call.event('[DONE]')
  call.end()
}

export interface AgentNode {
  readonly url: string
  /** Before a run: where its file will be. */
  begin(path: string): void
  stop(): void
}

/** Its model `m` writes and reads the file by the agent's own tools. */
export function startAgentNode(): AgentNode {
  const node = startScriptedNode('m')
  let path = ''
  node.answer((call) => respond(call, replyOf(call.body as unknown as Sent, path)))
  return {
    url: node.url,
    begin: (given) => {
      path = given
    },
    stop: () => node.stop(),
  }
}
