import { bearerChallenge } from '../../protocol/json/problem-response.ts'

/** On every answer of the agent (§1). */
export const baseHeaders = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' } as const
/** For the log only: the client has left. */
export const clientClosedStatus = 499
/** An agent has no pages of its own. */
export const agentProblems = { typeBase: null, challenge: bearerChallenge, helpBase: null } as const
