import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { applyTheme } from "./parts/canvas";
import { Shell } from "./shell";
import { startLive } from "./state/live";
import { takeToken } from "./state/token";

takeToken();
applyTheme();
startLive();
const root = document.getElementById("app");
if (root !== null) render(<Shell />, root);
