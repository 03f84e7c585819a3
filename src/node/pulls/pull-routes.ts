import { Problem } from '../../errors.ts'
import { checkBody } from '../../protocol/json/json-body.ts'
import { type AgentPulls, PullOrder } from '../../protocol/wire/nodes/pulls.ts'
import type { Pulls } from './pulls.ts'

export const pullBodyBytesMax = 4_096

const init = (status: number) => ({ status, headers: { 'cache-control': 'no-store' } })
const nowhere = () =>
  new Problem('invalid_state', {
    detail:
      'The owner of this computer lets its agent fetch no models: see --pull-from of the agent, which needs a models.json, too',
  })

/** The gateway has a model fetched. Throws `invalid_state` where the owner allows none, and what `Pulls.order` throws. */
export function answerPull(pulls: Pulls | null, body: string): Response {
  const order = checkBody(body, PullOrder)
  if (pulls === null) throw nowhere()
  return Response.json(pulls.order(order), init(202))
}

export function answerPulls(pulls: Pulls | null): Response {
  const answer: AgentPulls = { pulls: [...(pulls?.list() ?? [])] }
  return Response.json(answer, init(200))
}

/** Throws `pull_not_found`. */
export function answerPullCancel(pulls: Pulls | null, pullId: string): Response {
  if (pulls === null) throw new Problem('pull_not_found')
  return Response.json(pulls.cancel(pullId), init(200))
}
