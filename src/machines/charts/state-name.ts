import type { StateValue } from 'xstate'

/** Dotted, as pictures and transitions have it. */
export function stateName(value: StateValue): string {
  if (typeof value === 'string') return value
  return Object.entries(value)
    .map(([key, child]) => (child === undefined ? key : `${key}.${stateName(child)}`))
    .join(',')
}
