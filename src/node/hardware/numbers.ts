import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Gpu, gpusMax, Hardware } from '../../protocol/wire/nodes/hardware.ts'

/** What tools and files say, as the numbers of a status: whatever is no number, or an impossible one, is absent. */

const checkGpu = TypeCompiler.Compile(Gpu)
const checkHardware = TypeCompiler.Compile(Hardware)

export type Found = Partial<Record<keyof Hardware, unknown>>
type FoundGpu = Partial<Record<keyof Gpu, unknown>>

/** The number that a text is; undefined: none. `unit`: how many of the text's units one of ours has. */
export function numberIn(text: string | null | undefined, unit = 1): number | undefined {
  const trimmed = text?.trim() ?? ''
  return /^-?\d+(\.\d+)?$/.test(trimmed) ? Math.round(Number(trimmed) / unit) : undefined
}

export const bytesOfMb = 1_024 * 1_024

/** Leaves out each member that alone does not fit. */
function fitting(found: object, fits: (one: object) => boolean, always: object = {}): object {
  const members = Object.entries(found).filter(
    ([name, value]) => value !== undefined && fits({ ...always, [name]: value }),
  )
  return Object.fromEntries(members)
}

const asciiName = (name: string) =>
  name
    .replaceAll(/[^\x20-\x7e]/g, '')
    .trim()
    .slice(0, 96)

/** null: nothing usable is known of it. */
export function gpuOf({ name, ...rest }: FoundGpu): Gpu | null {
  const named = { name: asciiName(String(name ?? '')) || 'GPU' }
  const made = { ...named, ...fitting(rest, (one) => checkGpu.Check(one), named) }
  return checkGpu.Check(made) ? made : null
}

/** null: nothing is known. */
export function hardwareOf(found: Found): Hardware | null {
  const { gpus, ...rest } = found
  const usable = (Array.isArray(gpus) ? gpus : []).slice(0, gpusMax)
  const made = fitting({ ...rest, ...(usable.length === 0 ? {} : { gpus: usable }) }, (one) => checkHardware.Check(one))
  return checkHardware.Check(made) ? made : null
}
