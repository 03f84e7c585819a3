import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { YieldProbe } from './probe.ts'

const celsiusDefault = 85
const [celsiusMin, celsiusMax] = [20, 120]
/** A sensor that says more is broken, °C. */
const celsiusTrue = 150

/** Thousandths of a degree in a file; null: the sensor says nothing. */
function celsiusIn(path: string): number | null {
  try {
    const celsius = Number(readFileSync(path, 'utf8').trim()) / 1_000
    return Number.isFinite(celsius) && celsius > 0 && celsius < celsiusTrue ? celsius : null
  } catch {
    return null
  }
}

const list = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Temperature of Linux's hottest sensor; null: no sensor. */
export function hottest(sysRoot: string): number | null {
  const thermal = join(sysRoot, 'class/thermal')
  const zones = list(thermal)
    .filter((name) => name.startsWith('thermal_zone'))
    .map((name) => join(thermal, name, 'temp'))
  const hwmon = join(sysRoot, 'class/hwmon')
  const sensors = list(hwmon).flatMap((chip) =>
    list(join(hwmon, chip))
      .filter((name) => /^temp[0-9]+_input$/.test(name))
      .map((name) => join(hwmon, chip, name)),
  )
  const all = [...zones, ...sensors].flatMap((path) => celsiusIn(path) ?? [])
  return all.length === 0 ? null : Math.max(...all)
}

export const temperature: YieldProbe = {
  name: 'temperature',
  about: `a sensor is hotter than so many degrees Celsius (temperature=${celsiusDefault})`,
  make: (value, { sysRoot }) => {
    const most = value === null ? celsiusDefault : Number(value)
    if (!(most >= celsiusMin && most <= celsiusMax)) {
      return `temperature takes degrees Celsius from ${celsiusMin} to ${celsiusMax}, such as temperature=${celsiusDefault}.`
    }
    return () =>
      Promise.resolve().then(() => {
        const celsius = hottest(sysRoot)
        if (celsius === null) throw new Error('no sensor tells a temperature')
        return celsius > most
      })
  },
}
