import { plugin } from 'bun'
import { driverFile, repairedDriver } from './driver-repairs.ts'

let repaired = false

plugin({
  name: 'repaired-driver',
  setup(build) {
    build.onLoad({ filter: driverFile }, async ({ path }) => {
      const contents = repairedDriver(await Bun.file(path).text())
      repaired = true
      return { contents, loader: 'js' }
    })
  },
})

// Only here, and not as a static import: those are loaded before any code of this file runs. A built program
// (scripts/build.ts) has the repaired driver inside and another file in the place of this one.
export const { default: postgres } = await import('postgres')
export const { drizzle } = await import('drizzle-orm/postgres-js')

if (!repaired) throw new Error('postgres was loaded before src/db/driver.ts could repair it')
