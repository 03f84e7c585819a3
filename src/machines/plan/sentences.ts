import { minuteMs, secondMs } from '../../time.ts'
import type { PlanMove } from './moves.ts'
import type { PlanModel, PlanProblem } from './problem.ts'

const rounded = (value: number) => (value < 10 ? Math.round(value * 10) / 10 : Math.round(value))
const lasting = (ms: number) => (ms < 2 * minuteMs ? `${rounded(ms / secondMs)} s` : `${rounded(ms / minuteMs)} min`)
const times = (count: number, one: string) => `${rounded(count)} ${one}${count === 1 ? '' : 's'}`

function listed(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`
}

const perMinute = ({ demand }: PlanModel) => demand.perS * 60

/** Why a model is worth the load; `copies`: in memory elsewhere now. */
function causeOf(model: PlanModel, copies: number): string {
  const { calls, waited, waitMs, turnedAway, pastPerS, perS } = model.demand
  if (copies > 0) {
    const open = rounded((perS * model.durationMs) / secondMs)
    const room = rounded(copies * (model.slots ?? 0))
    return `${open} of its calls are under way at a time, and ${copies === 1 ? 'its one server takes' : `its ${copies} servers take`} ${room}`
  }
  if (waited > 0 && calls > 0) {
    const share = Math.min(100, Math.max(1, Math.round((100 * waited) / calls)))
    return `${share} % of its calls waited ${lasting(waitMs / waited)} for a load in the last hour`
  }
  if (turnedAway > 0) return `${times(turnedAway, 'request')} found no room for it in the last hour`
  if (pastPerS !== null && pastPerS >= perS && calls === 0)
    return `it has about ${times(perMinute(model) * 60, 'call')} in this hour on other days`
  return `it has ${times(perMinute(model), 'call')} a minute, and no node has it in memory`
}

/** Who gives way, and how much it was used. */
function leavingOf({ models, places }: PlanProblem, { unload }: PlanMove): string {
  if (unload.length === 0) return ''
  const leaving = unload.map((at) => models[places[at]?.model ?? -1]).filter((model) => model !== undefined)
  const calls = leaving.reduce((sum, { demand }) => sum + demand.calls, 0)
  const names = listed(leaving.map(({ modelId }) => modelId))
  const verb = leaving.length === 1 ? 'leaves' : 'leave'
  const use = calls === 0 ? 'no calls' : times(calls, 'call')
  return ` ${names} ${verb} memory for it, and had ${use} in the last hour.`
}

/** A move in words for operators: which model, on which node, and why. */
export function sentenceOf(problem: PlanProblem, move: PlanMove): string {
  const place = problem.places[move.load]
  const model = problem.models[place?.model ?? -1]
  const host = problem.hosts[place?.host ?? -1]
  if (place === undefined || model === undefined || host === undefined) throw new Error('no such move')
  const copies =
    model.fixed + problem.places.filter((other) => other.model === place.model && other.holds !== 'away').length
  const cause = place.pinned ? 'its node pins it' : causeOf(model, copies)
  const also = copies > 0 && !place.pinned ? ', too' : ''
  return `Load ${model.modelId} on ${host.name}${also}: ${cause}.${leavingOf(problem, move)}`
}
