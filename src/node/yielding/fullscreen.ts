import { output, type YieldProbe } from './probe.ts'

/** Of X11 and XWayland; xprop says what the window manager knows. */
export const fullscreen: YieldProbe = {
  name: 'fullscreen',
  about: 'a full-screen program runs (Linux with X11, where xprop is installed)',
  make: (value, world) => {
    if (value !== null) return 'fullscreen takes no value.'
    return async (signal) => {
      const active = await output(['xprop', '-root', '_NET_ACTIVE_WINDOW'], world, signal)
      const window = /0x[0-9a-f]+/i.exec(active)?.[0]
      if (window === undefined || Number(window) === 0) return false
      const state = await output(['xprop', '-id', window, '_NET_WM_STATE'], world, signal)
      return state.includes('_NET_WM_STATE_FULLSCREEN')
    }
  },
}
