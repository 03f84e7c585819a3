import { headers, witnessPath } from '../brand.ts'
import { Problem } from '../errors.ts'
import type { Log } from '../log.ts'
import { envelopeResponse, problemResponse } from '../protocol/json/problem-response.ts'
import { nodeModelsPath, nodeSleepPath, nodeStatusPath, nodeWakePath } from '../protocol/wire/nodes/agent.ts'
import { nodeFileBytesPath, nodeFilesPath, nodePullsPath } from '../protocol/wire/nodes/pulls.ts'
import { nodeTokensPath } from '../protocol/wire/nodes/tokens.ts'
import type { LocalCredentials } from './access/local-credentials.ts'
import { forPrograms, forTheGateway, withCredentialKind } from './access/needed-credentials.ts'
import { nodeAttestationRoute } from './attestation/attestation-route.ts'
import { nodeCommandRoute } from './commands/command-routes.ts'
import { RequestLine } from './request-line.ts'
import { agentProblems, baseHeaders, clientClosedStatus } from './rerank/answers.ts'
import { nodeSealedRoute, nodeSealedUsageRoute } from './sealed/sealed-routes.ts'

export const modelRoutes = {
  load: `${nodeModelsPath}/:model/load`,
  unload: `${nodeModelsPath}/:model/unload`,
  logs: `${nodeModelsPath}/:model/logs`,
} as const

export const nodePullCancelRoute = `${nodePullsPath}/:pull/cancel`

/** Routes that no program on this computer may call. */
const forGatewayAlone: ReadonlySet<string> = new Set([
  nodeStatusPath,
  nodeSleepPath,
  nodeWakePath,
  nodeCommandRoute,
  nodeTokensPath,
  nodeSealedRoute,
  nodeSealedUsageRoute,
  nodeAttestationRoute,
  witnessPath,
  nodePullsPath,
  nodePullCancelRoute,
  nodeFilesPath,
  nodeFileBytesPath,
  ...Object.values(modelRoutes),
])

type Refuse = (problem: Problem, requestId: string) => Response
export const asOpenAi: Refuse = (problem, requestId) =>
  envelopeResponse('openai', problem, requestId, baseHeaders, null)
export const asProblem: Refuse = (problem, requestId) => problemResponse(problem, requestId, baseHeaders, agentProblems)

/** Runs one route and turns a refusal into the route's form of error. */
export async function answered(
  { credentials, log }: { readonly credentials: LocalCredentials; readonly log: Log },
  route: string,
  request: Request,
  refuse: Refuse,
  work: (requestId: string) => Promise<Response> | Response,
): Promise<Response> {
  const line = new RequestLine(log, route, () => !credentials.knows(request))
  try {
    const response = await work(line.requestId)
    if (!response.headers.has(headers.requestId)) response.headers.set(headers.requestId, line.requestId)
    line.end(response.status, null)
    return response
  } catch (error) {
    if (request.signal.aborted) {
      line.end(clientClosedStatus, null)
      return new Response(null, { status: clientClosedStatus })
    }
    const found = error instanceof Problem ? error : new Problem('internal_error')
    const problem = withCredentialKind(found, request.headers, forGatewayAlone.has(route) ? forTheGateway : forPrograms)
    line.end(problem.status, problem.code, error instanceof Problem ? null : error)
    return refuse(problem, line.requestId)
  }
}
