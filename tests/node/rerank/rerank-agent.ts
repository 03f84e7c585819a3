import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AnyElysia, Elysia } from 'elysia'
import { headers } from '../../../src/brand.ts'
import { openPrivateFolder, type PrivateFolder } from '../../../src/host/private-files.ts'
import { newId } from '../../../src/ids.ts'
import { ConnectionClock } from '../../../src/listener/connection-clock.ts'
import { createLog } from '../../../src/log.ts'
import { type AskGateway, createGatewayKeys } from '../../../src/node/access/gateway-keys.ts'
import { createLocalCredentials } from '../../../src/node/access/local-credentials.ts'
import { type LocalKeys, loadLocalToken, localKeys } from '../../../src/node/access/local-keys.ts'
import { createRouterAuth } from '../../../src/node/access/router-auth.ts'
import { lexicalRuntime } from '../../../src/node/rerank/lexical-runtime.ts'
import { Reranker } from '../../../src/node/rerank/rerank.ts'
import { type RerankEnd, rerankRoutes } from '../../../src/node/rerank/rerank-routes.ts'
import { type DeclaredRanker, type RuntimeSet, startRuntimes } from '../../../src/node/runtimes/runtime-set.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { formatRouterSignature, newNonce, routerMessage } from '../../../src/protocol/signing/signatures.ts'

export const testNodeId = newId('node')
const routerKey = signingKey(new Uint8Array(32).fill(7))

export interface RerankAgent {
  readonly url: string
  readonly folder: PrivateFolder
  readonly localToken: string
  readonly keys: LocalKeys
  readonly runtimes: RuntimeSet
  readonly reranker: Reranker
  /** What was told of finished requests, oldest first. */
  readonly ends: readonly RerankEnd[]
  /** With the local runtime token. */
  post(body: unknown, more?: Readonly<Record<string, string>>): Promise<Response>
  stop(): Promise<void>
}

export interface RerankAgentOptions {
  /** Base URLs of model servers. */
  readonly urls?: readonly string[]
  readonly rankers?: readonly DeclaredRanker[]
  readonly timeoutMs?: number
  /** Makes it an enrolled agent, which knows the test's router and asks this for its gateway. */
  readonly gateway?: AskGateway
  /** The agent's clock for what its gateway said, ms. */
  readonly now?: () => number
}

/** The rerank route on a port of its own, with real credentials in a real folder and real runtimes. */
export async function startRerankAgent(options: RerankAgentOptions = {}): Promise<RerankAgent> {
  const dir = mkdtempSync(join(tmpdir(), 'penstock-rerank-'))
  const folder = openPrivateFolder(dir)
  const runtimes = await startRuntimes({
    folder,
    log: createLog('silent', () => {}),
    urls: options.urls ?? [],
    rankers: options.rankers ?? [],
    discover: false,
    ownPort: 0,
    builtIn: { lexical: lexicalRuntime },
    times: { pollMs: 50, pollTimeoutMs: 15_000, connectTimeoutMs: 15_000 },
  })
  const localToken = loadLocalToken(folder)
  const keys = localKeys(folder)
  const { gateway, now } = options
  const router =
    gateway === undefined
      ? null
      : createRouterAuth({
          nodeId: testNodeId,
          keys: [{ kid: routerKey.keyId, public_key_ed25519: routerKey.publicKey }],
        })
  const gatewayKeys =
    gateway === undefined ? null : createGatewayKeys({ ask: gateway, ...(now === undefined ? {} : { now }) })
  const credentials = createLocalCredentials({
    localToken,
    keys,
    router: () => router,
    gatewayKeys: () => gatewayKeys,
  })
  const ends: RerankEnd[] = []
  const reranker = new Reranker({ runtimes: () => runtimes.list(), ...timeoutOf(options) })
  const connections = new ConnectionClock(() => app.server)
  const app: AnyElysia = new Elysia({ serve: { hostname: '127.0.0.1', maxRequestBodySize: Number.MAX_SAFE_INTEGER } })
    .use(rerankRoutes({ credentials, reranker, connections, onEnd: (end) => ends.push(end) }))
    .listen(0)
  const url = `http://127.0.0.1:${app.server?.port}`
  return {
    url,
    folder,
    localToken,
    keys,
    runtimes,
    reranker,
    ends,
    post: (body, more = {}) => postRerank(url, body, { authorization: `Bearer ${localToken}`, ...more }),
    async stop() {
      await app.stop(true)
      runtimes.stop()
      rmSync(dir, { recursive: true })
    },
  }
}

const timeoutOf = ({ timeoutMs }: RerankAgentOptions) => (timeoutMs === undefined ? {} : { timeoutMs })

export function postRerank(url: string, body: unknown, sent: Readonly<Record<string, string>>): Promise<Response> {
  return fetch(`${url}/v1/rerank`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...sent },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
}

/** What the gateway would put into `X-SVC-Router-Signature`; the options make it wrong. */
export function routerSignature(
  body: string,
  wrong: { readonly atMs?: number; readonly nodeId?: string; readonly nonce?: string } = {},
): Readonly<Record<string, string>> {
  const timestamp = Math.floor((wrong.atMs ?? Date.now()) / 1_000)
  const nonce = wrong.nonce ?? newNonce()
  const request = { nodeId: wrong.nodeId ?? testNodeId, method: 'POST', path: '/v1/rerank', body }
  const signature = routerKey.sign(routerMessage(request, { timestamp, nonce }))
  return { [headers.routerSignature]: formatRouterSignature({ kid: routerKey.keyId, timestamp, nonce, signature }) }
}

interface ProblemBody {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly instance: string
  readonly code: string
  readonly request_id: string
  readonly retryable: boolean
  readonly errors?: readonly { readonly pointer?: string; readonly code: string; readonly detail: string }[]
}

/** Status, code and body of a refusal that is complete: problem+json, its request id in header and body. */
export async function refusalOf(response: Response): Promise<ProblemBody> {
  const body = (await response.json()) as ProblemBody
  const type = response.headers.get('content-type')
  const id = response.headers.get('x-request-id')
  if (type !== 'application/problem+json') throw new Error(`not a problem: ${type}`)
  if (id === null || id !== body.request_id) throw new Error('the request id is not that of the header')
  if (body.status !== response.status) throw new Error('the status is not that of the response')
  return body
}
