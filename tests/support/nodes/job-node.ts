import { x25519 } from '@noble/curves/ed25519.js'
import { receiptText, textHash, versionOf } from '../../../src/protocol/receipts/receipt.ts'
import { encodeBase64Url } from '../../../src/protocol/signing/base64.ts'
import { fingerprint, type SigningKey, signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { type Envelope, transportKeyId } from '../../../src/protocol/signing/envelope.ts'
import { openRequest, sealResponse } from '../../../src/protocol/signing/envelope-sealing.ts'
import { receiptMessage, transportKeyMessage } from '../../../src/protocol/signing/signatures.ts'
import type { CommandState, CommandSubmit } from '../../../src/protocol/wire/admin/command.ts'
import type { TransportKey } from '../../../src/protocol/wire/nodes/agent.ts'
import { isoTime } from '../../../src/time.ts'

/** What the node does with the next commands, first come, first served; then it answers by itself. */
export type Turn =
  | { readonly kind: 'fail'; readonly code: string }
  /** Runs until `release`. */
  | { readonly kind: 'hold' }
  /** Changes the true result before it is told. */
  | { readonly kind: 'lie'; readonly with: (state: Extract<CommandState, { status: 'completed' }>) => CommandState }
  /** The `PUT` itself is answered so. */
  | { readonly kind: 'refuse'; readonly status: number; readonly body: object }

export interface JobNode {
  readonly url: string
  readonly model: string
  /** Set once it is registered. */
  nodeId: string
  nodeClass: string
  readonly identity: SigningKey
  readonly fingerprint: string
  readonly keys: readonly TransportKey[]
  /** Plaintexts that were run, in order: one per attempt that began. */
  readonly prompts: string[]
  /** `PUT`s as they came. */
  readonly submits: readonly (CommandSubmit & { readonly commandId: string })[]
  readonly cancelled: readonly string[]
  turn(...turns: Turn[]): void
  /** Ends what is held. */
  release(): void
  /** As after a crash that kept nothing. */
  forgetCommands(): void
  /** Its clock, Unix ms. */
  now: () => number
  /** Refuses every call of the command routes with 503 while true. */
  away: boolean
  stop(): Promise<void>
}

interface Command {
  attempt: number
  state: CommandState
  readonly waiting: Set<() => void>
}

const counting = (from: number) => Uint8Array.from({ length: 32 }, (_, i) => (from + i) & 0xff)
const dayMs = 86_400_000
let nodesMade = 0

/** Keys as a node publishes them, signed by its identity. */
export function signedKey(identity: SigningKey, publicKey: Uint8Array, more: Partial<TransportKey> = {}): TransportKey {
  const key = {
    key_id: transportKeyId(publicKey),
    public_key_x25519: encodeBase64Url(publicKey),
    not_before: isoTime(Date.now() - dayMs),
    not_after: isoTime(Date.now() + 90 * dayMs),
    state: 'active' as const,
    ...more,
  }
  return { ...key, signature_ed25519: identity.sign(transportKeyMessage(key)) }
}

/** A node that speaks the command routes of §22 with the real envelope, beside a model list. */
export async function startJobNode(model = 'job-model'): Promise<JobNode> {
  const seed = ++nodesMade
  const identity = signingKey(counting(seed * 3))
  const secretKey = counting(seed * 5 + 1)
  const commands = new Map<string, Command>()
  const turns: Turn[] = []
  const held = new Set<() => void>()
  const submits: (CommandSubmit & { commandId: string })[] = []
  const cancelled: string[] = []

  const handle = async (request: Request): Promise<Response> => {
    const url = new URL(request.url)
    if (url.pathname === '/v1/models') return Response.json({ object: 'list', data: [{ id: model, object: 'model' }] })
    const commandId = /^\/svc\/v1\/commands\/([A-Za-z0-9_]+)$/.exec(url.pathname)?.[1]
    if (commandId === undefined) return new Response(null, { status: 404 })
    if (node.away) return new Response(null, { status: 503 })
    switch (request.method) {
      case 'PUT':
        return submit(commandId, (await request.json()) as CommandSubmit)
      case 'GET':
        return attend(commandId, Number(url.searchParams.get('wait_s') ?? 0))
      case 'DELETE':
        cancelled.push(commandId)
        return new Response(null, { status: 204 })
      default:
        return new Response(null, { status: 405 })
    }
  }
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, fetch: handle })

  function submit(commandId: string, body: CommandSubmit): Response {
    submits.push({ ...body, commandId })
    const known = commands.get(commandId)
    if (known !== undefined && known.attempt >= body.attempt) return new Response(null, { status: 202 })
    const turn = turns.shift()
    if (turn?.kind === 'refuse') return Response.json(turn.body, { status: turn.status })
    const command: Command = {
      attempt: body.attempt,
      state: { command_id: commandId, attempt: body.attempt, status: 'running' },
      waiting: new Set(),
    }
    commands.set(commandId, command)
    const finish = () => {
      command.state = run(commandId, body, turn)
      for (const wake of command.waiting) wake()
    }
    if (turn?.kind === 'hold') held.add(finish)
    else setTimeout(finish, 0)
    return new Response(null, { status: 202 })
  }

  function run(commandId: string, body: CommandSubmit, turn: Turn | undefined): CommandState {
    const base = { command_id: commandId, attempt: body.attempt }
    const failed = (code: string): CommandState => ({ ...base, status: 'failed', error: { code } })
    const context = { jobId: body.sealed_job_id, modelId: body.model_id, nodeId: node.nodeId }
    let opened: ReturnType<typeof openRequest>
    try {
      opened = openRequest(secretKey, context, body.encrypted_request as Envelope)
    } catch {
      return failed('decrypt_failed')
    }
    node.prompts.push(new TextDecoder().decode(opened.plaintext).trimEnd())
    if (turn?.kind === 'fail') return failed(turn.code)
    const answer = JSON.stringify({
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'the secret answer' }, finish_reason: 'stop' }],
    })
    const state = {
      ...base,
      status: 'completed' as const,
      encrypted_response: sealResponse(opened.responseKeys, context, new TextEncoder().encode(answer)),
      receipt: receipt(body),
    }
    return turn?.kind === 'lie' ? turn.with(state) : state
  }

  function receipt(body: CommandSubmit) {
    const at = isoTime(node.now())
    const facts = {
      issuer: 'node' as const,
      requestId: body.request_id,
      jobId: body.job_id,
      kind: 'private_job' as const,
      nodeId: node.nodeId,
      nodeClass: node.nodeClass,
      runtimeId: body.runtime_id,
      runtimeKind: 'openai',
      modelId: body.model_id,
      promptTokens: 9,
      completionTokens: 3,
      startedAt: at,
      completedAt: at,
    }
    return signedReceipt(identity, facts)
  }

  async function attend(commandId: string, waitS: number): Promise<Response> {
    const command = commands.get(commandId)
    if (command === undefined) {
      return Response.json({ code: 'command_not_found' }, { status: 404 })
    }
    if (command.state.status === 'running' && waitS > 0) {
      await new Promise<void>((resolve) => {
        command.waiting.add(resolve)
        setTimeout(resolve, waitS * 1_000).unref()
      })
    }
    // Lost meanwhile.
    if (commands.get(commandId) !== command) return Response.json({ code: 'command_not_found' }, { status: 404 })
    return Response.json(command.state)
  }

  const node: JobNode = {
    url: `http://127.0.0.1:${server.port}`,
    model,
    nodeId: '',
    nodeClass: 'home',
    identity,
    fingerprint: fingerprint(identity.publicKey) ?? '',
    keys: [signedKey(identity, x25519.getPublicKey(secretKey))],
    prompts: [],
    submits,
    cancelled,
    turn: (...more) => void turns.push(...more),
    release: () => {
      for (const finish of held) finish()
      held.clear()
    },
    forgetCommands: () => {
      const all = [...commands.values()]
      commands.clear()
      for (const { waiting } of all) for (const wake of waiting) wake()
    },
    now: Date.now,
    away: false,
    stop: () => server.stop(true),
  }
  return node
}

type Facts = Parameters<typeof receiptText>[0]

export function signedReceipt(identity: SigningKey, facts: Facts) {
  const text = receiptText(facts)
  const hash = textHash(text)
  return {
    receipt_hash: hash,
    receipt: JSON.parse(text),
    signature_ed25519: identity.sign(receiptMessage(hash, versionOf(facts))),
  }
}
