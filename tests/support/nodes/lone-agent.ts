import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { headers } from '../../../src/brand.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { type RunningNode, startNode } from '../../../src/node/main.ts'
import type { NodeOptions } from '../../../src/node/node-options.ts'
import { type SigningKey, signingKey, type VerifyKey, verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import {
  enrollMessage,
  formatRouterSignature,
  newNonce,
  routerMessage,
} from '../../../src/protocol/signing/signatures.ts'
import type { EnrollRequest, EnrollResponse } from '../../../src/protocol/wire/nodes/agent.ts'

/** The one route of a gateway that a first start needs; it calls its agents directly. */
export interface EnrollingGateway {
  readonly url: string
  /** The gateway's own key. */
  readonly key: SigningKey
  /** What came, in order. */
  readonly requests: readonly EnrollRequest[]
  /** Signatures that did not hold. */
  readonly badSignatures: number
  /** Refuses the next with this. */
  refuse(status: number, body: object): void
  stop(): Promise<void>
}

const randomSeed = () => crypto.getRandomValues(new Uint8Array(32))

export function startEnrollingGateway(): EnrollingGateway {
  const key = signingKey(randomSeed())
  const requests: EnrollRequest[] = []
  let badSignatures = 0
  let refusal: { readonly status: number; readonly body: object } | null = null
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      if (new URL(request.url).pathname !== '/v1/node-agent/enroll') return new Response(null, { status: 404 })
      const body = (await request.json()) as EnrollRequest
      requests.push(body)
      if (verifyKey(body.public_key_ed25519)?.verify(enrollMessage(body), body.signature_ed25519) !== true)
        badSignatures++
      if (refusal !== null) return Response.json(refusal.body, { status: refusal.status })
      const answer: EnrollResponse = {
        status: 'enrolled',
        protocol_version: 1,
        node_id: newId('node'),
        node_class: 'gpu',
        visibility: body.visibility ?? 'private',
        privacy_class: 'private',
        router_public_keys: [{ kid: key.keyId, public_key_ed25519: key.publicKey }],
        tunnel_url: `ws://127.0.0.1:${server.port}/v1/node-agent/tunnel`,
        endpoint_url: 'http://127.0.0.1:1',
      }
      return Response.json(answer)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    key,
    requests,
    get badSignatures() {
      return badSignatures
    },
    refuse: (status, body) => {
      refusal = { status, body }
    },
    stop: () => server.stop(true),
  }
}

export interface SignOptions {
  readonly key?: SigningKey
  readonly kid?: string
  readonly nodeId?: string
  /** Unix seconds. */
  readonly timestamp?: number
  readonly nonce?: string
  /** What is signed, where it is not what is sent. */
  readonly method?: string
  readonly path?: string
  readonly body?: string | Uint8Array
}

/** An agent in this process, called as its gateway calls it. */
export interface LoneAgent {
  readonly node: RunningNode
  readonly gateway: EnrollingGateway
  readonly dataDir: string
  /** Of callers on its own machine. */
  readonly localToken: string
  /** By which its status and receipts are known. */
  readonly identity: VerifyKey
  /** All that it has logged. */
  log(): string
  signature(method: string, path: string, body: string | Uint8Array | null, options?: SignOptions): string
  /** A request with the gateway's signature, over HTTP. */
  call(method: 'GET' | 'POST', path: string, body?: object | null, init?: CallInit): Promise<Response>
  stop(): Promise<void>
  /** Stops it, its gateway, and removes its folder. */
  remove(): Promise<void>
}

export interface CallInit extends SignOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export async function startLoneAgent(
  options: Partial<NodeOptions> & { readonly gateway?: EnrollingGateway } = {},
): Promise<LoneAgent> {
  const { gateway = startEnrollingGateway(), ...rest } = options
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'penstock-agent-'))
  let logged = ''
  const log = createLog('debug', (text) => {
    logged += text
  })
  const node = await startNode({
    gatewayUrl: gateway.url,
    token: 'svc_enroll_test',
    hostname: '127.0.0.1',
    port: 0,
    runtimes: [],
    discover: false,
    graceMs: 200,
    ...rest,
    dataDir,
    log,
  })
  const identity = verifyKey(gateway.requests[0]?.public_key_ed25519 ?? '')
  if (identity === null) throw new Error('the agent enrolled without a key')
  const signature = (method: string, path: string, body: string | Uint8Array | null, given: SignOptions = {}) => {
    const { key = gateway.key, nodeId = node.nodeId ?? '', kid = gateway.key.keyId, nonce = newNonce() } = given
    const timestamp = given.timestamp ?? Math.floor(Date.now() / 1_000)
    const request = {
      nodeId,
      method: given.method ?? method,
      path: given.path ?? path,
      body: given.body ?? body,
    }
    const signed = key.sign(routerMessage(request, { timestamp, nonce }))
    return formatRouterSignature({ kid, timestamp, nonce, signature: signed })
  }
  return {
    node,
    gateway,
    dataDir,
    localToken: (JSON.parse(readFileSync(join(dataDir, 'local-token.json'), 'utf8')) as { local_token: string })
      .local_token,
    identity,
    log: () => {
      log.flush()
      return logged
    },
    signature,
    call: (method, path, body = null, init = {}) => {
      const text = body === null ? null : JSON.stringify(body)
      return fetch(node.url + path, {
        method,
        headers: {
          ...(text === null ? {} : { 'content-type': 'application/json' }),
          [headers.routerSignature]: signature(method, path, text, init),
          ...init.headers,
        },
        body: text,
        ...(init.signal === undefined ? {} : { signal: init.signal }),
      })
    },
    stop: () => node.stop(),
    remove: async () => {
      await node.stop()
      await gateway.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
