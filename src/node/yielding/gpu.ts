import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { output, type ProbeWorld, type YieldProbe } from './probe.ts'

const percentDefault = 20
const nvidia = ['nvidia-smi', '--query-gpu=utilization.gpu', '--format=csv,noheader,nounits'] as const

/** Load of AMD's cards, which Linux tells; empty: there are none. */
function amdLoads(sysRoot: string): readonly number[] {
  const drm = join(sysRoot, 'class/drm')
  try {
    return readdirSync(drm)
      .filter((name) => /^card[0-9]+$/.test(name))
      .flatMap((name) => {
        try {
          return [Number(readFileSync(join(drm, name, 'device/gpu_busy_percent'), 'utf8').trim())]
        } catch {
          return []
        }
      })
  } catch {
    return []
  }
}

async function loadOf(world: ProbeWorld, signal: AbortSignal): Promise<number> {
  const amd = amdLoads(world.sysRoot)
  const loads = amd.length > 0 ? amd : (await output(nvidia, world, signal)).trim().split('\n').map(Number)
  const known = loads.filter((load) => Number.isFinite(load))
  if (known.length === 0) throw new Error('no graphics card tells its load')
  return Math.max(...known)
}

export const gpu: YieldProbe = {
  name: 'gpu',
  about: `another program uses the graphics card by more than so many percent (gpu=${percentDefault})`,
  make: (value, world) => {
    const most = value === null ? percentDefault : Number(value)
    if (!(most >= 1 && most <= 99)) return `gpu takes percent from 1 to 99, such as gpu=${percentDefault}.`
    let last = false
    return async (signal) => {
      // While a request of this agent runs, the load may be its own: the last reading stands.
      if (world.isBusy()) return last
      const load = await loadOf(world, signal)
      if (!world.isBusy()) last = load > most
      return last
    }
  },
}
