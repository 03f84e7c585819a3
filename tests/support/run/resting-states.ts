import type { AnyStateMachine } from 'xstate'

/** The states of a durable chart that are rows: all but those where something works. */
export function restingStates(machine: AnyStateMachine): string[] {
  return Object.values(machine.root.states)
    .filter((state) => !state.tags.includes('working'))
    .map((state) => state.key)
}
