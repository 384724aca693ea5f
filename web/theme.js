// Before the first paint, so that the page does not flash in the other theme.
{
  let theme = "system";
  try {
    theme = localStorage.getItem("kaiju-theme") ?? theme;
  } catch { /* a browser that keeps nothing */ }
  document.documentElement.dataset.theme = theme;
}
