import { exactHostsMax, exactModelsMax, packExactly } from './exact.ts'
import { packGreedily } from './greedy.ts'
import { movesOf, type PlanMove } from './moves.ts'
import { Packing } from './packing.ts'
import type { PlanProblem } from './problem.ts'

/** Where what should be in memory. */
export interface MemoryPlan {
  readonly problem: PlanProblem
  /** 1 for each place of the problem that should have its model in memory. */
  readonly chosen: Uint8Array
  readonly moves: readonly PlanMove[]
  /** No other plan is better; else it is the best that was found. */
  readonly exact: boolean
}

/** Models that somebody asks for, or that are pinned: the others are not planned, and stay while there is room. */
function plannedModels({ models, places }: PlanProblem): number {
  const pinned = new Set(places.filter((place) => place.pinned).map((place) => place.model))
  return models.filter(({ demand }, at) => demand.perS > 0 || pinned.has(at)).length
}

/**
 * Which models belong where: those whose absence makes callers wait longest for the memory that they take. A load must pay
 * within ten minutes, so that what is there stays where nothing is gained.
 */
export function planMemory(problem: PlanProblem): MemoryPlan {
  const greedy = new Packing(problem)
  packGreedily(greedy)
  const small = problem.hosts.length <= exactHostsMax && plannedModels(problem) <= exactModelsMax
  const { best, proved } = small ? packExactly(new Packing(problem), greedy) : { best: greedy.chosen, proved: false }
  return { problem, chosen: best, moves: movesOf(problem, best), exact: proved }
}
