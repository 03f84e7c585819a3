import { Problem } from '../../errors.ts'
import { promptOf } from '../../machines/placement/blocks.ts'
import type { ServingRoute } from '../../machines/rules/routing.ts'
import { BoundRewriter } from '../../protocol/chat/bound-rewriter.ts'
import { ChunkRewriter } from '../../protocol/chat/chunk-rewriter.ts'
import { completionText, publicCompletion } from '../../protocol/chat/completion.ts'
import { fitMessages } from '../../protocol/chat/fit-messages.ts'
import { estimatePrompt, promptTokensLeast } from '../../protocol/chat/token-estimate.ts'
import { upstreamBody } from '../../protocol/chat/upstream-request.ts'
import { reportMembers, reportsAsked } from '../../protocol/dialects/members/server-reports.ts'
import { type Thinking, thinks, withTemplate } from '../../protocol/dialects/members/thinking.ts'
import { firstUnlisted, markedUnlisted } from '../../protocol/dialects/members/unlisted.ts'
import type { Json } from '../../protocol/json/json-object.ts'
import { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { membersFor, thinkingMembers } from '../../runtimes/registry.ts'
import type { Operation } from './operation.ts'
import { readRequestBody, refuseRouting, refuseTwoBounds } from './request-body.ts'

function refuseChoices({ n }: ChatRequest): void {
  if (n != null && n > 1) throw new Problem('n_not_supported', { param: 'n' })
}

/** Members in the place of the client's, for this route; null: none. What a hosted provider knows is not known here. */
function changedFor(body: ChatRequest & Thinking, { runtimeKind, external }: ServingRoute, whole = false): Json | null {
  const changed = membersFor(runtimeKind, body, whole)
  const { [thinks]: on } = body
  if (on === undefined || external) return changed
  return { ...changed, ...withTemplate(thinkingMembers(runtimeKind, on), body as unknown as Json) }
}

/** What chat shares with the operations that are translated to it: all but a receipt bound to what its client wrote. */
export const asChat: Operation<ChatRequest> = {
  name: 'chat',
  path: '/chat/completions',
  summary: 'Complete a chat',
  description:
    'OpenAI-compatible. Fields that are not listed pass through to the node, and those that no table of the gateway knows to your own nodes alone; `svc` is read by the gateway and never sent on.',
  schema: ChatRequest,
  modality: 'chat',
  byAgents: true,
  receiptKind: 'hosted_chat',
  envelope: 'openai',
  generates: true,
  idPrefix: 'chatcmpl-',
  read(text) {
    const body = readRequestBody(text, ChatRequest)
    fitMessages(body)
    refuseRouting(body, true)
    refuseTwoBounds(body)
    refuseChoices(body)
    return body
  },
  unlisted: markedUnlisted,
  estimate: estimatePrompt,
  tokensLeast: promptTokensLeast,
  prompt: promptOf,
  // A whole answer of a runtime that hears late of a client that left is asked for as a stream (§27).
  upstream: (text, body, ceiling, route) => upstreamBody(text, body, ceiling, changedFor(body, route)),
  readWhole: publicCompletion,
  writeWhole: (identity, { choices, timings }, { usage, metadata }, body) =>
    completionText(identity, choices, usage, metadata, reportMembers({ timings }, reportsAsked(body))),
  writer(identity, body, bound) {
    const asked = reportsAsked(body)
    return bound ? new BoundRewriter(identity, asked) : new ChunkRewriter(identity, asked)
  },
}

/** llama.cpp repeats the text of the assistant that it goes on with, but not in a stream. */
const goesOn = ({ messages }: ChatRequest) => messages.at(-1)?.role === 'assistant'

/** The first operation. */
export const chat: Operation<ChatRequest> = {
  ...asChat,
  bindable: true,
  upstream: (text, body, ceiling, route) => upstreamBody(text, body, ceiling, changedFor(body, route, goesOn(body))),
  unlisted: (body) => firstUnlisted('chat', body),
}
