import { type SigningKey, verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import { parseRouterSignature, routerMessage, statusMessage } from '../../../src/protocol/signing/signatures.ts'
import type { AgentRuntime, NodeStatus } from '../../../src/protocol/wire/nodes/agent.ts'
import { nodeTokensPath } from '../../../src/protocol/wire/nodes/tokens.ts'
import { isoTime } from '../../../src/time.ts'
import { enrollBody, newIdentity } from './enrolling.ts'

/** What it was asked, but for the polls. */
export interface AgentCall {
  readonly path: string
  readonly headers: Headers
  readonly body: string
}

/** An agent of the test's own making, reached at its `endpoint_url`: it says exactly what the test wants it to say. */
export interface ScriptedAgent {
  readonly identity: SigningKey
  readonly nodeId: string
  readonly calls: readonly AgentCall[]
  /** Router signatures that were wrong or came twice. */
  readonly badSignatures: () => number
  /** What the next polls are answered with; `signed` makes the true answer. */
  answer(how: (signed: (status?: Partial<NodeStatus>) => NodeStatus, nonce: string) => Response): void
  /** Back to true answers with these runtimes. */
  honest(runtimes: readonly AgentRuntime[]): void
  /** What its chats say in `svc`; without it they vouch for nothing. */
  vouch(how: (call: AgentCall, usage: typeof agentUsage) => unknown): void
  /** What a stream is made of, event by event, until it ends or breaks off; without it a stream is answered as a whole. */
  events(how: (call: AgentCall) => readonly object[]): void
  /** Answers calls as the test says; null: as without it. */
  respond(how: (call: AgentCall) => Response | null): void
  /** Resolves with the next poll from now on that was answered. */
  polled(): Promise<void>
  stop(): Promise<void>
}

export function agentRuntime(id: string, models: readonly string[], more: Partial<AgentRuntime> = {}): AgentRuntime {
  return {
    runtime_id: id,
    kind: 'vllm',
    state: 'ready',
    models: models.map((model) => ({ id: model, modality: 'chat', ready: true, loaded: true, context_length: 4096 })),
    slots_total: 2,
    slots_free: 2,
    queue_depth: 0,
    ...more,
  }
}

/** Of every chat. */
export const agentUsage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } as const

interface Enrolled {
  readonly node_id: string
  readonly router_public_keys: readonly { readonly kid: string; readonly public_key_ed25519: string }[]
}

export async function startScriptedAgent(
  gatewayUrl: string,
  token: string,
  runtimes: readonly AgentRuntime[],
): Promise<ScriptedAgent> {
  const identity = newIdentity()
  const calls: AgentCall[] = []
  const nonces = new Set<string>()
  const waiting: (() => void)[] = []
  let enrolled: Enrolled | null = null
  let bad = 0
  const honestly =
    (given: readonly AgentRuntime[]): Parameters<ScriptedAgent['answer']>[0] =>
    (signed) =>
      Response.json(signed({ runtimes: [...given] }))
  let how = honestly(runtimes)
  let streaming: Parameters<ScriptedAgent['events']>[0] | null = null
  let vouching: Parameters<ScriptedAgent['vouch']>[0] = () => undefined

  let responding: Parameters<ScriptedAgent['respond']>[0] = () => null

  const knows = (request: Request, path: string, body: Uint8Array): boolean => {
    const stamp = parseRouterSignature(request.headers.get('x-svc-router-signature') ?? '')
    const key = enrolled?.router_public_keys.find(({ kid }) => kid === stamp?.kid)
    if (stamp === null || enrolled === null || key === undefined || nonces.has(stamp.nonce)) return false
    nonces.add(stamp.nonce)
    const message = routerMessage({ nodeId: enrolled.node_id, method: request.method, path, body }, stamp)
    return verifyKey(key.public_key_ed25519)?.verify(message, stamp.signature) === true
  }
  const signer =
    (nonce: string) =>
    (status: Partial<NodeStatus> = {}): NodeStatus => {
      const nodeId = enrolled?.node_id ?? ''
      const unsigned = { node_id: nodeId, sent_at: isoTime(Date.now()), runtimes: [], transport_keys: [], ...status }
      return { ...unsigned, signature_ed25519: identity.sign(statusMessage(nodeId, nonce, unsigned)) }
    }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const bytes = await request.bytes()
      const body = new TextDecoder().decode(bytes)
      if (!knows(request, pathname + search, bytes)) {
        // The gateway may ask before its answer to the enrolment has arrived here.
        if (enrolled !== null) bad++
        return Response.json({}, { status: 401 })
      }
      if (pathname === '/svc/v1/status') {
        const nonce = request.headers.get('x-svc-status-nonce') ?? ''
        // Told after the answer is on its way: the next poll then comes after this one was taken.
        for (const tell of waiting.splice(0)) setTimeout(tell, 0)
        return how(signer(nonce), nonce)
      }
      const call = { path: pathname + search, headers: request.headers, body }
      calls.push(call)
      const answer = responding(call)
      if (answer !== null) return answer
      // Of a version before the path was there.
      if (pathname === nodeTokensPath) return Response.json({ code: 'route_not_found' }, { status: 404 })
      if (streaming !== null && body.includes('"stream":true')) {
        const text = streaming(call).map((event) => `data: ${JSON.stringify(event)}\n\n`)
        return new Response(text.join(''), { headers: { 'content-type': 'text/event-stream' } })
      }
      return Response.json({
        choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
        usage: agentUsage,
        svc: vouching(call, agentUsage),
      })
    },
  })
  const body = enrollBody(identity, token, { endpoint_url: `http://127.0.0.1:${server.port}` })
  const response = await fetch(`${gatewayUrl}/v1/node-agent/enroll`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (response.status !== 201) throw new Error(`not enrolled: ${response.status} ${await response.text()}`)
  enrolled = (await response.json()) as Enrolled
  return {
    identity,
    nodeId: enrolled.node_id,
    calls,
    badSignatures: () => bad,
    answer: (next) => {
      how = next
    },
    honest: (given) => {
      how = honestly(given)
    },
    vouch: (next) => {
      vouching = next
    },
    events: (next) => {
      streaming = next
    },
    respond: (next) => {
      responding = next
    },
    polled: () => new Promise((resolve) => waiting.push(resolve)),
    stop: () => server.stop(true),
  }
}
