import { type AnyElysia, Elysia } from 'elysia'
import { headers, witnessPath } from '../brand.ts'
import { Problem } from '../errors.ts'
import { descriptors } from '../host/descriptors.ts'
import { newId } from '../ids.ts'
import { ConnectionClock, idleSeconds } from '../listener/connection-clock.ts'
import { frontDoor } from '../listener/front-door.ts'
import { pathOf } from '../listener/request-target.ts'
import { failureName, type Log } from '../log.ts'
import { parseJson, readJsonText } from '../protocol/json/json-body.ts'
import { witnessBytesMax } from '../protocol/log/witnessing.ts'
import { isNonce } from '../protocol/signing/signatures.ts'
import { rerankRoute } from '../protocol/wire/inference/rerank.ts'
import { nodeModelsPath, nodeSleepPath, nodeStatusPath, nodeWakePath } from '../protocol/wire/nodes/agent.ts'
import { nodeFileBytesPath, nodeFilesPath, nodePullsPath } from '../protocol/wire/nodes/pulls.ts'
import { nodeTokensPath } from '../protocol/wire/nodes/tokens.ts'
import { signedBody } from './access/signed-body.ts'
import { answered, asOpenAi, asProblem, modelRoutes } from './answered-route.ts'
import { type AttestationParts, answerAttestation, nodeAttestationRoute } from './attestation/attestation-route.ts'
import { answerChat, type ChatRouteParts, listModels, nodeChatRoute, nodeModelsRoute } from './chat/chat-routes.ts'
import { answerCommand, commandBodyBytesMax, nodeCommandRoute } from './commands/command-routes.ts'
import type { Commands } from './commands/commands.ts'
import { nodeStatus, type StatusParts } from './node-status.ts'
import { answerSleep, answerWake, powerBodyBytesMax } from './power/power-routes.ts'
import { logEnd, RequestLine } from './request-line.ts'
import { baseHeaders } from './rerank/answers.ts'
import type { Reranker } from './rerank/rerank.ts'
import { rerankRoutes } from './rerank/rerank-routes.ts'
import { answerModelLog, answerModelWish, modelWishBytesMax } from './runtimes/model-routes.ts'
import {
  answerSealed,
  answerSealedUsage,
  nodeSealedRoute,
  nodeSealedUsageRoute,
  type SealedRouteParts,
} from './sealed/sealed-routes.ts'
import { answerTokens } from './tokens/token-routes.ts'
import { type TravelParts, travelRoutes } from './travel-routes.ts'
import type { Witness } from './witness/witness.ts'
import { answerWitness } from './witness/witness-routes.ts'

export interface NodeAppParts
  extends Omit<ChatRouteParts, 'connections'>,
    Omit<SealedRouteParts, 'connections'>,
    Omit<AttestationParts, 'connections'>,
    Omit<TravelParts, 'connections'>,
    StatusParts {
  readonly reranker: Reranker
  readonly commands: Commands
  readonly witness: Witness
  /** The owner lets it send magic packets. */
  readonly wakesOthers: boolean
  readonly log: Log
}

type OpenParts = NodeAppParts & Pick<ChatRouteParts, 'connections'>

export interface NodeApp {
  readonly app: AnyElysia
  /** The same routes without a socket, for requests from the tunnel. */
  handle(request: Request): Promise<Response>
}

const methods: Readonly<Record<string, string>> = {
  [nodeChatRoute]: 'POST',
  [nodeModelsRoute]: 'GET',
  [nodeStatusPath]: 'GET',
  '/healthz': 'GET',
  [rerankRoute]: 'POST',
  [witnessPath]: 'POST',
  [nodeTokensPath]: 'POST',
  [nodeSleepPath]: 'POST',
  [nodeWakePath]: 'POST',
  [nodePullsPath]: 'GET, POST',
  [nodeFilesPath]: 'POST',
  [nodeFileBytesPath]: 'POST',
}

async function statusResponse(parts: NodeAppParts, request: Request): Promise<Response> {
  if (!request.headers.has(headers.routerSignature)) throw new Problem('missing_credentials')
  await parts.place.decided
  parts.credentials.begin(request).withBody(null)
  const nonce = request.headers.get(headers.statusNonce) ?? ''
  if (!isNonce(nonce)) throw new Problem('invalid_parameter', { param: `header.${headers.statusNonce}` })
  const { membership } = parts.place
  if (membership === null) throw new Problem('invalid_credentials')
  const members = request.headers.get(headers.statusMembers)
  return Response.json(nodeStatus(parts, membership.nodeId, nonce, members), { headers: baseHeaders })
}

/** Only the gateway may send commands. No local credential allows them. */
async function commandResponse(parts: OpenParts, request: Request): Promise<Response> {
  if (!request.headers.has(headers.routerSignature)) throw new Problem('missing_credentials')
  const caller = parts.credentials.begin(request)
  const { connections } = parts
  const put = request.method === 'PUT'
  const text = put ? await connections.body(request, readJsonText(request, commandBodyBytesMax)) : null
  caller.withBody(text)
  // A long poll is silent for as long as the job runs.
  return connections.lifted(request, () =>
    answerCommand(parts.commands, request, text === null ? null : parseJson(text)),
  )
}

type ModelVerb = keyof typeof modelRoutes

/** Only the gateway may ask for a model in memory; programs on this computer ask by calling it. It alone reads logs. */
async function modelResponse(parts: OpenParts, request: Request, verb: ModelVerb, id: string): Promise<Response> {
  const body = await signedBody(parts, request, modelWishBytesMax)
  return verb === 'logs' ? answerModelLog(parts.runtimes, id, body) : answerModelWish(parts.runtimes, verb, id, body)
}

/** While the computer sleeps or its owner needs it, nothing new comes from the gateway; programs of the computer are served. */
function refuseWork({ power }: NodeAppParts, request: Request): void {
  power.touched()
  if (power.takesWork || !request.headers.has(headers.routerSignature)) return
  throw new Problem('runtime_unavailable', { detail: 'The owner of this computer needs it, or it falls asleep' })
}

/** Checkpoints come from the gateway alone, whose log contains this node's receipts. */
async function witnessResponse(parts: OpenParts, request: Request): Promise<Response> {
  return answerWitness(parts.witness, request, await signedBody(parts, request, witnessBytesMax))
}

function unmatched(request: Request): Response {
  const allow = methods[pathOf(request.url)]
  const problem =
    allow === undefined ? new Problem('route_not_found') : new Problem('method_not_allowed', { headers: { allow } })
  return asProblem(problem, newId('req'))
}

/** Whether the headers alone identify the caller. */
function isKnown({ credentials }: NodeAppParts, request: Request): boolean {
  if (pathOf(request.url) === '/healthz') return true
  try {
    credentials.begin(request)
    return true
  } catch {
    return false
  }
}

/** The gateway encodes the id of a model that it wants in memory. */
const wishPath = new RegExp(`^${nodeModelsPath}/([^/]+)/(?:load|unload|logs)$`)

function door(parts: NodeAppParts) {
  const refuse = (request: Request, problem: Problem) => {
    const line = new RequestLine(parts.log, 'unmatched', () => !parts.credentials.knows(request))
    line.end(problem.status, problem.code)
    return asProblem(problem, line.requestId)
  }
  return frontDoor({
    descriptors,
    isKnown: (request) => isKnown(parts, request),
    refuse,
    slashedId: wishPath,
    leaving: parts.stopping,
  })
}

/** Bun's own limit would answer before any route, and each route has its own limit. */
const bunBodyBytesMax = Number.MAX_SAFE_INTEGER

/** The agent's HTTP interface (§22); the caller listens. */
export function createNodeApp(parts: NodeAppParts): NodeApp {
  const { log } = parts
  const connections = new ConnectionClock(() => app.server)
  const open: OpenParts = { ...parts, connections }
  const command = (request: Request) =>
    answered(parts, nodeCommandRoute, request, asProblem, () => commandResponse(open, request))
  const chat = (request: Request) =>
    answered(parts, nodeChatRoute, request, asOpenAi, (requestId) => {
      refuseWork(parts, request)
      return answerChat(open, request, requestId)
    })
  const model = (request: Request, verb: ModelVerb, id: string) =>
    answered(parts, modelRoutes[verb], request, asProblem, () => modelResponse(open, request, verb, id))
  const { enter, adapter, isCanonical, refuseAmbiguous } = door(parts)
  const app: AnyElysia = new Elysia({
    adapter,
    serve: { maxRequestBodySize: bunBodyBytesMax, idleTimeout: idleSeconds, development: false },
    // Without this Elysia looks for the path behind the eleventh character, which is wrong for a short host.
    handler: { standardHostname: false },
  })
    // Elysia's type describes the result of the handler, but it means the handler.
    .wrap(enter as never)
    .onError(({ request, code, error }) => {
      if (code === 'NOT_FOUND') return unmatched(request)
      log.error('unhandled', { failure: failureName(error) })
      return asProblem(new Problem('internal_error'), newId('req'))
    })
    .get('/healthz', () => Response.json({ status: 'ok' }, { headers: baseHeaders }))
    .post(nodeChatRoute, ({ request }) => chat(request), { parse: 'none' })
    .get(nodeModelsRoute, ({ request }) =>
      answered(parts, nodeModelsRoute, request, asOpenAi, () =>
        Response.json(listModels(open, request), { headers: baseHeaders }),
      ),
    )
    .get(nodeStatusPath, ({ request }) =>
      answered(parts, nodeStatusPath, request, asProblem, () => statusResponse(parts, request)),
    )
    .put(nodeCommandRoute, ({ request }) => command(request), { parse: 'none' })
    .get(nodeCommandRoute, ({ request }) => command(request))
    .delete(nodeCommandRoute, ({ request }) => command(request), { parse: 'none' })
    .post(modelRoutes.load, ({ request, params }) => model(request, 'load', params.model), { parse: 'none' })
    .post(modelRoutes.unload, ({ request, params }) => model(request, 'unload', params.model), { parse: 'none' })
    .post(modelRoutes.logs, ({ request, params }) => model(request, 'logs', params.model), { parse: 'none' })
    .post(
      witnessPath,
      ({ request }) => answered(parts, witnessPath, request, asProblem, () => witnessResponse(open, request)),
      { parse: 'none' },
    )
    .post(
      nodeTokensPath,
      ({ request }) => answered(parts, nodeTokensPath, request, asProblem, () => answerTokens(open, request)),
      { parse: 'none' },
    )
    .post(
      nodeSealedRoute,
      ({ request }) =>
        answered(parts, nodeSealedRoute, request, asProblem, () => {
          refuseWork(parts, request)
          return answerSealed(open, request)
        }),
      { parse: 'none' },
    )
    .post(
      nodeSleepPath,
      ({ request }) =>
        answered(parts, nodeSleepPath, request, asProblem, async () =>
          answerSleep(parts.power, await signedBody(open, request, powerBodyBytesMax)),
        ),
      { parse: 'none' },
    )
    .post(
      nodeWakePath,
      ({ request }) =>
        answered(parts, nodeWakePath, request, asProblem, async () =>
          answerWake(parts.power, parts.wakesOthers, await signedBody(open, request, powerBodyBytesMax)),
        ),
      { parse: 'none' },
    )
    .get(nodeSealedUsageRoute, ({ request }) =>
      answered(parts, nodeSealedUsageRoute, request, asProblem, () => answerSealedUsage(open, request)),
    )
    .get(nodeAttestationRoute, ({ request }) =>
      answered(parts, nodeAttestationRoute, request, asProblem, () => answerAttestation(open, request)),
    )
    .use(travelRoutes(open))
    .use(
      rerankRoutes({
        credentials: parts.credentials,
        connections,
        reranker: parts.reranker,
        onEnd: ({ failure, ...ended }, request) => {
          parts.power.touched()
          logEnd(log, { ...ended, route: rerankRoute, stranger: () => !parts.credentials.knows(request) })
          if (failure !== null)
            log.warn('rerank_failed', { request_id: ended.requestId, failure: failureName(failure) })
        },
      }),
    )
  return {
    app,
    handle: async (request) => (isCanonical(request) ? app.handle(request) : refuseAmbiguous(request)),
  }
}
