/**
 * What two coding agents send, as data of our own: members, headers and the order of items as Claude Code 2.1.197 and Codex
 * CLI 0.169.0 put them on the wire to a gateway on loopback (November 2026), which is what code.claude.com/docs/en/llm-gateway-protocol
 * and developers.openai.com/codex describe. All texts are ours.
 */
export interface AgentTurn {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, unknown>>
}

/** A session of one agent: each request carries all of it. */
export interface AgentSession {
  /** The request for what was said so far. */
  request(): AgentTurn
  asks(text: string): void
  /** Takes an answer's events into the conversation, runs the tools that it calls, and returns their number and its text. */
  hears(events: readonly Json[]): { readonly calls: number; readonly text: string }
}
export type Json = Readonly<Record<string, unknown>>

const session = '01a20384-3eb2-78a2-8ff1-76111e89bbb9'
const object = (properties: object, required: readonly string[] = []) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})
const text = { type: 'string' }
const long = (what: string) => `${what} `.repeat(200)

const claudeTools = [
  ['Bash', object({ command: text, timeout: { type: 'number' }, run_in_background: { type: 'boolean' } }, ['command'])],
  [
    'Edit',
    object({ file_path: text, old_string: text, new_string: text, replace_all: { type: 'boolean', default: false } }),
  ],
  ['Read', object({ file_path: text, offset: { type: 'integer', minimum: 0 }, limit: { type: 'integer' } })],
  ['TaskUpdate', object({ status: { anyOf: [{ enum: ['pending', 'completed'] }, { const: 'deleted' }] } })],
] as const

/** `key`: in `authorization`, as `ANTHROPIC_AUTH_TOKEN` is sent. */
export function claudeCode(model: string, key: string): AgentSession {
  const messages: Json[] = []
  const ephemeral = { cache_control: { type: 'ephemeral' } }
  return {
    asks(asked) {
      const reminder = { type: 'text', text: '<system-reminder>\nToday is a day.\n</system-reminder>' }
      const first = messages.length === 0
      const content = [...(first ? [reminder] : []), { type: 'text', text: asked, ...ephemeral }]
      messages.push({ role: 'user', content })
      if (first) messages.push({ role: 'system', content: 'Available agent types for the Agent tool:\n- none' })
    },
    request: () => ({
      path: '/v1/messages?beta=true',
      headers: {
        accept: 'application/json',
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'user-agent': 'claude-cli/2.1.197 (external, sdk-cli)',
        'anthropic-version': '2023-06-01',
        'anthropic-beta':
          'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,mid-conversation-system-2026-04-07,effort-2025-11-24',
        'anthropic-dangerous-direct-browser-access': 'true',
        'x-app': 'cli',
        'x-claude-code-session-id': session,
        'x-stainless-retry-count': '0',
        'x-stainless-timeout': '600',
      },
      body: {
        model,
        messages,
        system: [
          { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1.197; cc_entrypoint=sdk-cli;' },
          { type: 'text', text: 'You are an agent.', ...ephemeral },
          { type: 'text', text: long('Be careful.'), ...ephemeral },
        ],
        tools: claudeTools.map(([name, input_schema]) => ({ name, description: long(name), input_schema })),
        metadata: { user_id: JSON.stringify({ device_id: 'd', account_uuid: '', session_id: session }) },
        max_tokens: 32_000,
        thinking: { type: 'adaptive' },
        context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
        output_config: { effort: 'high' },
        stream: true,
      },
    }),
    hears(events) {
      const content = claudeBlocks(events)
      messages.push({ role: 'assistant', content })
      const called = content.filter(({ type }) => type === 'tool_use')
      const results = called.map(({ id }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: long('a line'),
        is_error: false,
      }))
      if (results.length > 0) messages.push({ role: 'user', content: results })
      return { calls: called.length, text: content.map((block) => String(block.text ?? '')).join('') }
    },
  }
}

/** Blocks as they stand when their streams have ended. */
function claudeBlocks(events: readonly Json[]): readonly Json[] {
  const blocks: Record<string, unknown>[] = []
  const inputs: string[] = []
  for (const { type, index, content_block, delta } of events) {
    const at = Number(index)
    if (type === 'content_block_start') blocks[at] = { ...(content_block as Json) }
    if (type !== 'content_block_delta') continue
    const { text: words, thinking, partial_json } = delta as Record<string, string | undefined>
    const block = blocks[at] ?? {}
    if (words !== undefined) block.text = `${block.text}${words}`
    if (thinking !== undefined) block.thinking = `${block.thinking}${thinking}`
    if (partial_json !== undefined) inputs[at] = (inputs[at] ?? '') + partial_json
  }
  for (const [at, input] of inputs.entries()) if (input !== undefined) (blocks[at] ?? {}).input = JSON.parse(input)
  return blocks
}

const codexFunction = (name: string, parameters: object) => ({
  type: 'function',
  name,
  description: long(name),
  strict: false,
  parameters,
})

/** With `web_search = "disabled"`, as the guide wants it. */
export function codex(model: string, key: string): AgentSession {
  const said = (role: string, words: string, type = 'input_text'): Json => ({
    type: 'message',
    role,
    content: [{ type, text: words }],
  })
  const input: Json[] = [
    said('developer', long('You are a coding agent.')),
    said('developer', '<skills_instructions>\nNone.\n</skills_instructions>'),
    said('user', '<environment_context>\n  <cwd>/work</cwd>\n  <shell>bash</shell>\n</environment_context>'),
  ]
  return {
    asks: (words) => void input.push(said('user', words)),
    request: () => ({
      path: '/v1/responses',
      headers: {
        accept: 'text/event-stream',
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'user-agent': 'codex_exec/0.169.0 (Debian 12.0.0; x86_64)',
        originator: 'codex_exec',
        'session-id': session,
        'thread-id': session,
        'x-client-request-id': session,
        'x-codex-turn-metadata': JSON.stringify({ session_id: session, request_kind: 'turn' }),
      },
      body: {
        model,
        input,
        tools: [
          codexFunction('exec_command', object({ cmd: text, yield_time_ms: { type: 'number' } }, ['cmd'])),
          codexFunction('view_image', object({ path: text }, ['path'])),
          {
            type: 'namespace',
            name: 'multi_agent_v1',
            description: 'Tools for sub-agents.',
            tools: [codexFunction('close_agent', object({ target: text }, ['target']))],
          },
        ],
        tool_choice: 'auto',
        parallel_tool_calls: true,
        reasoning: { summary: 'auto' },
        store: false,
        stream: true,
        include: ['reasoning.encrypted_content'],
        prompt_cache_key: session,
        client_metadata: { session_id: session },
      },
    }),
    hears(events) {
      const items = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item as Json)
      input.push(...items)
      const called = items.filter(({ type }) => type === 'function_call')
      for (const { call_id } of called) {
        input.push({ type: 'function_call_output', call_id, output: long('a line') })
      }
      const parts = items.flatMap(({ content }) => (content as readonly Json[] | undefined) ?? [])
      const words = parts.filter(({ type }) => type === 'output_text').map((part) => String(part.text))
      return { calls: called.length, text: words.join('') }
    },
  }
}
