import { battery } from './battery.ts'
import { fullscreen } from './fullscreen.ts'
import { gpu } from './gpu.ts'
import { hours } from './hours.ts'
import type { Look, ProbeWorld, YieldProbe } from './probe.ts'
import { temperature } from './temperature.ts'

/** A new probe is a file and a line here; its words for people stand in `state-words.ts`. */
export const yieldProbes: readonly YieldProbe[] = [battery, temperature, hours, gpu, fullscreen]

export interface NamedLook {
  readonly name: string
  readonly look: Look
}

/** Reads `temperature=85`. Returns a sentence for the owner where it names no probe, or a wrong value. */
export function lookOf(text: string, world: ProbeWorld): NamedLook | string {
  const [, name = '', value = null] = /^([^=]*)(?:=(.*))?$/.exec(text) ?? []
  const probe = yieldProbes.find((each) => each.name === name)
  if (probe === undefined) {
    return `${name === '' ? text : name} is no probe; there are ${yieldProbes.map((each) => each.name).join(', ')}.`
  }
  const look = probe.make(value, world)
  return typeof look === 'string' ? look : { name, look }
}
