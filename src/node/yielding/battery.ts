import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { YieldProbe } from './probe.ts'

const read = (path: string): string | null => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return null
  }
}

/** Of Linux. A battery with the scope `Device` is that of a mouse or a headset. */
function onBattery(sysRoot: string): boolean {
  const folder = join(sysRoot, 'class/power_supply')
  const supplies = readdirSync(folder).map((name) => ({
    type: read(join(folder, name, 'type')),
    online: read(join(folder, name, 'online')),
    status: read(join(folder, name, 'status')),
    scope: read(join(folder, name, 'scope')),
  }))
  const mains = supplies.filter(({ type }) => type === 'Mains' || type === 'USB')
  if (mains.some(({ online }) => online === '1')) return false
  const batteries = supplies.filter(({ type, scope }) => type === 'Battery' && scope !== 'Device')
  return batteries.some(({ status }) => status === 'Discharging')
}

export const battery: YieldProbe = {
  name: 'battery',
  about: 'the computer runs on battery',
  make: (value, { sysRoot }) => {
    if (value !== null) return 'battery takes no value.'
    return () => Promise.resolve().then(() => onBattery(sysRoot))
  },
}
