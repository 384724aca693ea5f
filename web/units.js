// Numbers as people read them.

const rounded = (value) => (value < 9.95 ? value.toFixed(1) : Math.round(value).toString());

export const percent = (share) => `${Math.round(100 * (share || 0))} %`;

/** 1234567 as 1.2 M. */
export function short(value) {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (value >= size) return `${rounded(value / (unit === "k" ? 1e3 : size))} ${unit}`;
  }
  return Math.round(value).toLocaleString("en");
}

export const perSecond = (value, unit = " tokens/s") => `${value > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value).toLocaleString("en")}${unit}`;

export function seconds(value) {
  if (value < 0.00995) return `${(value * 1e3).toFixed(value < 0.000995 ? 2 : 1)} ms`;
  return value < 0.9995 ? `${Math.round(value * 1e3)} ms` : `${value.toFixed(value < 9.95 ? 2 : 1)} s`;
}

export const bytesPerSecond = (value) => `${short(value)}B/s`.replace(/(\d)B/, "$1 B");

/** Bytes in the unit that suits `like`. */
export function gigabytes(bytes, like = bytes) {
  const [size, unit] = like >= 1e9 ? [1e9, "GB"] : [1e6, "MB"];
  const text = (bytes / size).toFixed(like / size < 10 ? 2 : like / size < 100 ? 1 : 0);
  return bytes === like ? `${text} ${unit}` : text;
}

export function duration(value) {
  const [days, hours, minutes] = [Math.floor(value / 86400), Math.floor(value / 3600) % 24, Math.floor(value / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min` : `${Math.floor(value)} s`;
}
