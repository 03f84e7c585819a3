import { type Static, Type } from '@sinclair/typebox'
import { formed, strict } from '../shapes.ts'

/** What a computer with an agent is made of and how it does, as its own tools say (§39). What they do not say is absent. */

export const gpusMax = 16
/** 16 TiB. */
const memoryMbMax = 16_777_216
/** 1 EiB: disks of a computer, and those that it reaches over a network. */
const diskMbMax = 1_099_511_627_776
const megabytes = (description: string, maximum = memoryMbMax) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum, description: `${description}, MiB` }))
const percent = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 100, description: `${description}, percent` }))
const celsius = Type.Optional(Type.Integer({ minimum: -50, maximum: 250, description: '°C' }))

export const Gpu = Type.Object(
  {
    name: formed('^[\\x20-\\x7e]{1,96}$', '1 to 96 printable ASCII characters'),
    memory_total_mb: megabytes('Its memory'),
    memory_used_mb: megabytes('What of it all programs take'),
    load_percent: percent('How busy it is'),
    temperature_c: celsius,
    power_watts: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000, description: 'What it draws, watts' })),
  },
  strict,
)
export type Gpu = Static<typeof Gpu>

export const Hardware = Type.Object(
  {
    gpus: Type.Optional(Type.Array(Gpu, { minItems: 1, maxItems: gpusMax })),
    memory_total_mb: megabytes('Memory of the computer itself'),
    memory_used_mb: megabytes('What of it programs have taken'),
    load_percent: percent('How busy its processors are'),
    temperature_c: Type.Optional(
      Type.Integer({ minimum: -50, maximum: 250, description: 'Its hottest sensor beside those of GPUs, °C' }),
    ),
    battery_percent: percent('Charge of the battery'),
    on_battery: Type.Optional(Type.Boolean({ description: 'It runs on its battery' })),
    disk_free_mb: megabytes('Free where the agent keeps its folder', diskMbMax),
  },
  { ...strict, minProperties: 1 },
)
export type Hardware = Static<typeof Hardware>
