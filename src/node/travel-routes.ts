import { Elysia } from 'elysia'
import { Problem } from '../errors.ts'
import type { Log } from '../log.ts'
import { checkBody } from '../protocol/json/json-body.ts'
import {
  AgentPullOrder,
  type AgentPulls,
  FileBytesAsked,
  FilesAsked,
  nodeFileBytesPath,
  nodeFilesPath,
  nodePullsPath,
} from '../protocol/wire/nodes/pulls.ts'
import { type SignedBodyParts, signedBody } from './access/signed-body.ts'
import { answered, asProblem, nodePullCancelRoute } from './answered-route.ts'
import type { GivenModels } from './pulls/given-models.ts'
import type { Pulls } from './pulls/pulls.ts'

const orderBytesMax = 4_096

const unkept = { 'cache-control': 'no-store' }
const init = (status: number) => ({ status, headers: unkept })
const nowhere = () =>
  new Problem('invalid_state', {
    detail:
      'The owner of this computer lets its agent fetch no models: see --pull-from of the agent, which needs a models.json, too',
  })

export interface TravelParts extends SignedBodyParts {
  /** null: the owner lets it fetch no models. */
  readonly pulls: Pulls | null
  /** What other nodes may have of its models. */
  readonly given: GivenModels
  readonly log: Log
}

/** The gateway has a model fetched. Throws `invalid_state` where the owner allows none, and what `Pulls.order` throws. */
function answerOrder(pulls: Pulls | null, body: string): Response {
  const order = checkBody(body, AgentPullOrder)
  if (pulls === null) throw nowhere()
  return Response.json(pulls.order(order), init(202))
}

function answerPulls(pulls: Pulls | null): Response {
  const answer: AgentPulls = { pulls: [...(pulls?.list() ?? [])] }
  return Response.json(answer, init(200))
}

/** Throws `pull_not_found`. */
function answerCancel(pulls: Pulls | null, pullId: string): Response {
  if (pulls === null) throw new Problem('pull_not_found')
  return Response.json(pulls.cancel(pullId), init(200))
}

/** Which files a model has. 202: they are still being hashed. Throws what `GivenModels.list` throws. */
async function answerFiles(given: GivenModels, body: string): Promise<Response> {
  const files = await given.list(checkBody(body, FilesAsked).model)
  return files === null ? Response.json({ status: 'hashing' }, init(202)) : Response.json(files, init(200))
}

/** Bytes of one of them. Throws what `GivenModels.open` throws. */
async function answerFileBytes(given: GivenModels, body: string, signal: AbortSignal): Promise<Response> {
  const sent = await given.open(checkBody(body, FileBytesAsked), signal)
  return new Response(sent.body, {
    status: 206,
    headers: {
      ...unkept,
      'content-type': 'application/octet-stream',
      'content-range': `bytes ${sent.from}-${sent.to}/${sent.bytes}`,
    },
  })
}

/** Models that come to this computer and leave it (§39). Only the gateway may ask for that. */
export function travelRoutes(parts: TravelParts) {
  const { pulls, given } = parts
  const route = (path: string, work: (request: Request) => Promise<Response>) => (request: Request) =>
    answered(parts, path, request, asProblem, () => work(request))
  const list = route(nodePullsPath, async (request) => {
    await signedBody(parts, request, 0)
    return answerPulls(pulls)
  })
  const order = route(nodePullsPath, async (request) =>
    answerOrder(pulls, await signedBody(parts, request, orderBytesMax)),
  )
  const files = route(nodeFilesPath, async (request) =>
    answerFiles(given, await signedBody(parts, request, orderBytesMax)),
  )
  const bytes = route(nodeFileBytesPath, async (request) =>
    answerFileBytes(given, await signedBody(parts, request, orderBytesMax), request.signal),
  )
  return new Elysia()
    .get(nodePullsPath, ({ request }) => list(request))
    .post(nodePullsPath, ({ request }) => order(request), { parse: 'none' })
    .post(
      nodePullCancelRoute,
      ({ request, params }) =>
        answered(parts, nodePullCancelRoute, request, asProblem, async () => {
          await signedBody(parts, request, 0)
          return answerCancel(pulls, params.pull)
        }),
      { parse: 'none' },
    )
    .post(nodeFilesPath, ({ request }) => files(request), { parse: 'none' })
    .post(nodeFileBytesPath, ({ request }) => bytes(request), { parse: 'none' })
}
